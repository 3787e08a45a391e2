"""Several runs side by side: shared maps in the same colours, and shared curves in one picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bathyscope.analysis.depths import Comparison, compare
from bathyscope.errors import OptionError
from bathyscope.pages.comparison import forest
from bathyscope.pages.figures.arguments import name_runs
from bathyscope.pages.figures.kind import Drawing, Member, Panel, Shared, drop_empty
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings
from bathyscope.runs.run import Run

_JOINT_NOTE: Final = (
    "{heading} of each model, as in the figures of the single runs below. Maps: equal colours are equal values within "
    "a row; axes count each model's own blocks. Lines: each model over the share of its depth."
)


def side_by_side(
    runs: Sequence[Run], options: FigureOptions | None = None, names: Sequence[str] | None = None
) -> dict[str, Drawing]:
    """Draw, for every figure, what at least two runs share; empty for a single run.

    Token maps are matched by data set and prompt; each run keeps its own tokens.

    Raises:
        OptionError: a run with nothing to draw.
    """
    return join_drawings([drawings(run, options) for run in runs], name_runs(runs, names))


def compare_named(runs: Sequence[Run], names: Sequence[str], cluster: str | None = None) -> Comparison | str:
    """Compare runs with the first under the names of a page, or return why they cannot be compared."""
    try:
        comparison = compare(runs, resamples=1000, cluster=cluster)
    # The page states the reason; its other parts need no comparison.
    except OptionError as error:
        return str(error)
    sides = tuple(replace(side, name=name) for side, name in zip(comparison.sides, names))
    if len(sides) < len(names):
        return "Some of these runs are one and the same, which is not compared with itself."
    data = comparison.data.assign_coords(
        comparison=[f"{name} − {names[0]}" for name in names[1:]],
        reference=("comparison", [names[0]] * (len(names) - 1)),
        other=("comparison", list(names[1:])),
    )
    return replace(comparison, data=data, runs=comparison.runs.assign_coords(run=list(names)), sides=sides)


def draw_differences(runs: Sequence[Run], names: Sequence[str], cluster: str | None = None) -> Drawing | str:
    """Draw how far effective depths differ from the first run's, or return why that is unknown."""
    comparison = compare_named(runs, names, cluster)
    return comparison if isinstance(comparison, str) else draw_forest(comparison)


def draw_forest(comparison: Comparison) -> Drawing | str:
    """Draw the differences of a comparison, or return the reason for their absence."""
    drawing = forest.drawing(comparison)
    return drawing if drawing.panels else f"No estimator has a difference. {comparison.summary()}"


def join_drawings(
    run_drawings: Sequence[Mapping[str, Drawing]], names: Sequence[str], least: int = 2
) -> dict[str, Drawing]:
    """Join figures that are already computed.

    Args:
        run_drawings: the figures of every run by name.
        names: of the runs.
        least: how many runs must share a content.
    """
    joint_drawings = {}
    for name in dict.fromkeys(name for figures in run_drawings for name in figures):
        present = [
            (run, number, figures[name])
            for number, (run, figures) in enumerate(zip(names, run_drawings))
            if name in figures
        ]
        panels = _join_panels(present, least)
        if panels:
            first = present[0][2]
            joint_drawings[name] = Drawing(
                panels, first.joint_note or _JOINT_NOTE.format(heading=first.heading), heading=first.heading
            )
    return joint_drawings


def _join_panels(run_drawings: Sequence[tuple[str, int, Drawing]], least: int) -> list[Panel]:
    """Make a panel for everything that at least ``least`` runs show."""
    by_key: dict[str, tuple[Shared, list[Member]]] = {}
    for run, number, drawing in run_drawings:
        for panel in drawing.panels:
            for shared in panel.shared:
                _, members = by_key.setdefault(shared.key, (shared, []))
                members.append(Member(run, number, shared.content, drawing.blocks))
    joint_panels = [
        shared.together(shared.name, members) for shared, members in by_key.values() if len(members) >= least
    ]
    return drop_empty(joint_panels)
