"""A map of effects, skipped block against affected block, with bars of the output's change beside it."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from bathyscope.report.figures import style
from bathyscope.report.figures.heat_map import (
    HeatMap,
    describe_clipped,
    describe_largest,
    draw_colour_bar,
    draw_heat,
)
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.multiples import share

Array = NDArray[np.float64]


def panel(name: str, heat: HeatMap, output: Array | None, reduction: str) -> Panel:
    """The map, bars at its right, the colour bar below.

    Args:
        heat: skipped against affected block, 0 … L−1 both.
        output: (skipped), change of the output, NaN where nothing was measured; None = there are no bars.
        reduction: how tokens and prompts were reduced, in words.
    """
    L = len(heat.values)
    alt = (
        f"Heat map of {L} skipped by {L} affected blocks. {heat.title}, {reduction}: {describe_largest(heat)}. "
        f"{_describe_output(output)}"
    ).strip()
    return Panel(name, partial(_draw, heat=heat, output=output), alt, style.MAP_SIZE, (share(name, heat),))


def describe(heat: HeatMap) -> str:
    """The sentences on clipped colours and unmeasured rows, empty where there are none."""
    said = [describe_clipped(heat)]
    if heat.hatched:
        said.append(f"{heat.title}: hatched rows ({', '.join(map(str, heat.hatched))}) were not measured.")
    return " ".join(sentence for sentence in said if sentence)


def _draw(figure: FigureBase, heat: HeatMap, output: Array | None) -> None:
    if output is None:
        beside = [figure.subplots()]
    else:
        beside = list(figure.subplots(1, 2, width_ratios=(1, 0.26), sharey=True))
        _draw_output(beside[1], output)
    draw_colour_bar(figure, draw_heat(beside[0], heat), [heat], beside)


def _describe_output(output: Array | None) -> str:
    if output is None:
        return ""
    if not np.isfinite(output).any():
        return "The change of the output was not measured."
    worst, best = int(np.nanargmax(output)), int(np.nanargmin(output))
    return (
        f"Bars: the output changes most, {output[worst]:.3g}, without block {worst}, and least, "
        f"{output[best]:.3g}, without block {best}."
    )


def _draw_output(ax: Axes, output: Array) -> None:
    height = 0.8 if len(output) <= style.MARKERS_UP_TO else 1.0
    ax.barh(np.arange(len(output)), output, height=height, color=style.VERMILION)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=2))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("output change\n(L2, 0 to √2)", fontsize=8)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", left=False, labelleft=False)
