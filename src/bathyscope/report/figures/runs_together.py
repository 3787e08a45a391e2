"""One variable of several runs in one picture, over the share of their depth, so that models of any depth compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import xarray as xr

from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Panel, Together
from bathyscope.report.figures.lines import Axis, Look, Positions, panel, series, unit
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_COLOURS: Final = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.MUTED)
_MARKERS: Final = ("o", "s", "^", "D", "v")
_LINES: Final = ("-", "--", ":", "-.")
SHARE_LABEL: Final = "boundary / number of blocks (share of the depth)"


@dataclass(frozen=True)
class Compared:
    """A variable (prompt, boundary) that is drawn for several runs.

    Args:
        name: of the variable.
        title: of the panel.
        y: what stands on the axis; ``{unit}`` is the variable's own.
        positions: what its values are means of.
    """

    name: str
    title: str
    y: str
    positions: Positions = "prompts"


def looks(count: int) -> list[Look]:
    """Colour, marker and line, different for up to twenty runs."""
    return [
        Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i // len(_COLOURS) % len(_LINES)])
        for i in range(count)
    ]


def together(measure: str, compared: Sequence[Compared], note: str) -> Together:
    """A panel for every variable that two runs or more hold, a line a run."""

    def panels(runs: Sequence[Run], names: Sequence[str], options: FigureOptions) -> list[Panel]:
        held = [(name, run[measure]) for name, run in zip(names, runs)]
        made = [_panel(one, [(name, data) for name, data in held if one.name in data], options) for one in compared]
        return [one for one in made if one is not None]

    return Together(panels, note)


def _panel(one: Compared, held: Sequence[tuple[str, xr.Dataset]], options: FigureOptions) -> Panel | None:
    if len(held) < 2:
        return None
    curves = [
        series(data, one.name, name, look, options, one.positions) for look, (name, data) in zip(looks(len(held)), held)
    ]
    # a curve's places are boundaries 0 … L
    curves = [replace(curve, x=curve.x / curve.x.max()) for curve in curves]
    y = one.y.format(unit=unit(held[0][1], one.name))
    return panel(one.name, curves, Axis(one.title, SHARE_LABEL, y, "auto", whole=False))
