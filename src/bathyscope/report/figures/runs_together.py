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
        # a run looks the same in all panels, whether or not every run is in each of them
        named = [(name, look, run[measure]) for name, look, run in zip(names, looks(len(runs)), runs)]
        made = [_panel(one, [held for held in named if one.name in held[2]], options) for one in compared]
        return [one for one in made if one is not None]

    return Together(panels, note)


def _panel(one: Compared, held: Sequence[tuple[str, Look, xr.Dataset]], options: FigureOptions) -> Panel | None:
    curves = [series(data, one.name, name, look, options, one.positions) for name, look, data in held]
    # a curve's places are boundaries 0 … L
    curves = [replace(curve, x=curve.x / curve.x.max()) for curve in curves if not curve.empty]
    if len(curves) < 2:
        return None
    y = one.y.format(unit=unit(held[0][2], one.name))
    return panel(one.name, curves, Axis(one.title, SHARE_LABEL, y, "auto", whole=False))
