"""Curves of several runs in one picture, each over the share of its model's depth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Member, Panel
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.curve_axes import MOST_TOGETHER, describe_curves, fill_axes, is_logarithmic
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, LINES, PLACES, SHARE_LABEL, Axis, Look, Series, nth_look

_SPANS: Final = {
    BOUNDARY_LABEL: 0,
    **{PLACES[dimension]: 1 for dimension in ("block", "dropped", "skipped")},
    PLACES["swapped"]: 2,
}
"""How many blocks a place spans, for axes that define it."""
_NAME_LETTERS: Final = 40
_WIDTH_TOGETHER: Final = 5.6


def mark_depths(line_panel: Panel, places: Mapping[str, float], meaning: str) -> Panel:
    """Add a mark at the top of a panel's axes for each run that has one.

    Args:
        places: name of the run → share of the depth.
        meaning: what the marks are.
    """
    marks = {elided(run, _NAME_LETTERS): place for run, place in places.items()}
    alt = f"{line_panel.alt} {meaning.capitalize()}: {', '.join(f'{run} {place:.2f}' for run, place in marks.items())}."
    return replace(line_panel, alt=alt, draw=partial(_draw_marked, draw=line_panel.draw, marks=marks, meaning=meaning))


def join_runs(name: str, members: Sequence[Member], by_block: bool = False) -> Panel | None:
    """Draw all runs over the share of their depth: colour and marker tell the run, dashes the quantity.

    Where these are too many for one axes, each quantity has its own axes with all runs.

    Args:
        by_block: draw them over blocks or boundaries instead, each model's own.
    """
    axis = members[0].content[1]
    quantities = list(dict.fromkeys(curve.label for member in members for curve in member.content[0]))
    together = len(quantities) == 1 or len(members) * len(quantities) <= MOST_TOGETHER
    # With one quantity the dashes are free to tell runs apart as well.
    dashes = dict(zip(quantities, cycle(LINES))) if together and len(quantities) > 1 else {}
    rows: dict[str, list[Series]] = {quantity: [] for quantity in quantities}
    names: list[tuple[str, Look]] = []
    for member in members:
        run, run_look = elided(member.run, _NAME_LETTERS), nth_look(member.number)
        names.append((run, replace(run_look, line="-") if dashes else run_look))
        for curve in member.content[0]:
            label = f"{run}, {curve.label}" if dashes else run
            x = curve.x if by_block else _scale_places(curve.x, axis.x, member.blocks)
            dashed = replace(run_look, line=dashes.get(curve.label, run_look.line))
            rows[curve.label].append(replace(curve, label=label, x=x, look=dashed))
    names += [(quantity, Look(style.MUTED, "", line)) for quantity, line in dashes.items()]
    # A named rule, such as a threshold, belongs to one run; rules without a name (0) hold for all.
    rules = {height: rule_name for height, rule_name in axis.rules.items() if not rule_name}
    joint_axis = Axis(axis.title, axis.x if by_block else SHARE_LABEL, axis.y, axis.scale, rules, whole=by_block)
    parts = (
        [("", [curve for part_curves in rows.values() for curve in part_curves])] if together else list(rows.items())
    )
    width = _WIDTH_TOGETHER if together else min(style.WIDEST, 1.2 + 2.6 * len(parts))
    size = (width, style.PANEL_SIZE[1] + legend.measure_height([entry for entry, _ in names], width))
    curves = [
        replace(curve, label=f"{curve.label}, {part}" if part else curve.label)
        for part, part_curves in parts
        for curve in part_curves
    ]
    return Panel(
        name,
        partial(_draw_together, parts=parts, axis=joint_axis, names=names),
        describe_curves(curves, joint_axis),
        size,
    )


def _scale_places(x: NDArray[Any], label: str, blocks: int | None) -> NDArray[Any]:
    """Return the middle of each place as a share of the L blocks.

    It is b / L for a boundary, (l + ½) / L for a block, and (ℓ + 1) / L for a swapped pair.

    Where the axis does not define how many blocks a place spans (a window), the last place ends at L.
    """
    last = int(x.max())
    span = _SPANS.get(label, 0 if blocks is None else blocks - last)
    return np.asarray((x + span / 2) / (max(last + span, 1) if blocks is None else blocks))


def _draw_together(
    figure: FigureBase, parts: Sequence[tuple[str, Sequence[Series]]], axis: Axis, names: Sequence[tuple[str, Look]]
) -> None:
    """Draw an axes for each part on one scale, with one legend of runs and of dashes."""
    logarithmic = is_logarithmic([curve for _, part_curves in parts for curve in part_curves], axis)
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for ax, (title, part_curves) in zip(axes, parts):
        fill_axes(ax, part_curves, axis, logarithmic)
        # The title of a single axes has the weight of all titles.
        ax.set_title(title or axis.title, **({"fontweight": "normal"} if title else {}))
    for ax in axes[1:]:
        ax.set_ylabel("")
    for ax in set(axes) - {axes[len(axes) // 2]}:
        ax.set_xlabel("")
    if parts[0][0]:
        head_figure(figure, axis.title)
    handles = [Line2D([], [], color=look.colour, marker=look.marker, ls=look.line) for _, look in names]
    legend.draw_legend(figure, handles, [name for name, _ in names])


def _draw_marked(
    figure: FigureBase, draw: Callable[[FigureBase], None], marks: Mapping[str, float], meaning: str
) -> None:
    draw(figure)
    for ax in figure.findobj(Axes):
        # The label of a curve begins with its run, and a quantity may follow after a comma.
        line_by_run: dict[str, Any] = {str(line.get_label()).split(", ")[0]: line for line in ax.lines}
        for run in (run for run in marks if run in line_by_run):
            look = {
                "color": line_by_run[run].get_color(),
                "marker": line_by_run[run].get_marker(),
                "markerfacecolor": style.PAPER,
            }
            top = ax.get_xaxis_transform()
            ax.plot([marks[run]], [1.0], linestyle="", markersize=6, transform=top, clip_on=False, zorder=3, **look)
        if ax.get_xlabel():
            ax.set_xlabel(f"{ax.get_xlabel()}\nhollow, at the top: {meaning}")
