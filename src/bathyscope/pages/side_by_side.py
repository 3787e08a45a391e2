"""Several runs side by side: whatever their panels share, the same maps in the same colours, curves in one picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bathyscope.analysis.depths import compare
from bathyscope.errors import OptionError
from bathyscope.pages.arguments import named
from bathyscope.pages.comparison import forest
from bathyscope.pages.figures.kind import Drawing, Member, Panel, Shared
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings
from bathyscope.runs.run import Run

_BESIDE: Final = (
    "{heading} of each model, as in the figures of the single runs below. Maps: equal colours are equal values within "
    "a row, and axes count each model's own blocks. Lines: each model over the share of its depth."
)


def side_by_side(
    runs: Sequence[Run], options: FigureOptions | None = None, names: Sequence[str] | None = None
) -> dict[str, Drawing]:
    """For every figure what at least two runs have in common, by the figure's name; empty for a single run.

    Token maps are matched by data set and prompt; each run keeps its own tokens.

    Raises:
        OptionError: a run with nothing to draw.
    """
    return together([drawings(run, options) for run in runs], named(runs, names))


def differences(runs: Sequence[Run], names: Sequence[str], cluster: str | None = None) -> Drawing | str:
    """How far the effective depths of the runs are from the first one's, or why that is not known."""
    try:
        found = compare(runs, resamples=1000, cluster=cluster)
    # which runs cannot be compared, and why, is said on the page, whose other parts need no comparison
    except OptionError as error:
        return str(error)
    labels = [f"{name} − {names[0]}" for name in names[1:]]
    drawing = forest.drawing(replace(found, data=found.data.assign_coords(comparison=labels)))
    return drawing if drawing.panels else f"No estimator has a difference. {found.summary()}"


def together(drawn: Sequence[Mapping[str, Drawing]], names: Sequence[str], least: int = 2) -> dict[str, Drawing]:
    """The same of figures that are there already.

    Args:
        drawn: of every run its figures by name.
        names: of the runs.
        least: how many runs have to share something.
    """
    found = {}
    for name in dict.fromkeys(name for figures in drawn for name in figures):
        there = [
            (run, number, figures[name]) for number, (run, figures) in enumerate(zip(names, drawn)) if name in figures
        ]
        panels = _panels(there, least)
        if panels:
            first = there[0][2]
            found[name] = Drawing(panels, first.beside or _BESIDE.format(heading=first.heading), heading=first.heading)
    return found


def _panels(drawn: Sequence[tuple[str, int, Drawing]], least: int) -> list[Panel]:
    """A picture for whatever so many runs show."""
    by_key: dict[str, tuple[Shared, list[Member]]] = {}
    for run, number, drawing in drawn:
        for panel in drawing.panels:
            for shared in panel.shared:
                _, members = by_key.setdefault(shared.key, (shared, []))
                members.append(Member(run, number, shared.shown, drawing.blocks))
    made = [shared.together(shared.name, members) for shared, members in by_key.values() if len(members) >= least]
    return [panel for panel in made if panel is not None]
