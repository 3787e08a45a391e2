"""One number for each prompt: a row of dots for each quantity, with the mean and its interval.

Suffix: P prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from bathyscope.core.arrays import FloatArray
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import whole_numbers
from bathyscope.pages.figures.kit.forest import name_rows
from bathyscope.pages.figures.kit.summary import Summary, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in

_ROW_INCHES: Final = 0.55
_AROUND_INCHES: Final = 1.1
_SPREAD: Final = 0.26
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True)
class PromptValues:
    """A quantity and its value for every prompt (P,), NaN where missing.

    Args:
        weights: (P,), the tokens behind each value, for means over tokens; None = each prompt counts the same.
    """

    label: str
    values: xr.DataArray
    weights: NDArray[Any] | None = None

    @property
    def numbers(self) -> NDArray[Any]:
        """The values that are not missing."""
        return self.values.values[np.isfinite(self.values.values)]

    def summary(self, options: FigureOptions, limits: tuple[float, float]) -> Summary:
        """Return mean and interval over the prompts that have a value, cut to the possible range."""
        weights = np.ones(len(self.values)) if self.weights is None else self.weights
        cluster = clusters_in(self.values, options.cluster)
        return summarise(self.values.values[:, None], weights, options, cluster, limits)


@dataclass(frozen=True)
class Scale:
    """The axis that all rows share, from the smallest possible value to the largest; ``whole``: ticks are integers."""

    title: str
    label: str
    low: float
    high: float
    whole: bool = False


def make_panel(name: str, rows: Sequence[PromptValues], scale: Scale, options: FigureOptions) -> Panel | None:
    """Make a panel of these rows; None where none of them has a value."""
    filled = [row for row in rows if row.numbers.size]
    if not filled:
        return None
    summaries = [row.summary(options, (scale.low, scale.high)) for row in filled]
    descriptions = "; ".join(f"{row.label}: {_describe_row(row, summary)}" for row, summary in zip(filled, summaries))
    size = (style.PANEL_SIZE[0], _AROUND_INCHES + _ROW_INCHES * len(filled))
    draw = partial(_draw_strip, rows=filled, summaries=summaries, scale=scale)
    return Panel(name, draw, f"Dots, one a prompt, {scale.title.lower()}: {scale.label}. {descriptions}.", size)


def spread(count: int) -> FloatArray:
    """Return places across a row, within ±0.26, that separate dots of equal value; the same at every call."""
    # Multiples of the golden ratio fill an interval evenly for every count, without chance and without a period.
    share = np.modf(0.5 + np.arange(count, dtype=np.float64) * _GOLDEN)[0]
    return np.asarray(_SPREAD * (2 * share - 1), dtype=np.float64)


def _draw_strip(figure: FigureBase, rows: Sequence[PromptValues], summaries: Sequence[Summary], scale: Scale) -> None:
    ax = figure.subplots()
    for place, (row, summary) in enumerate(zip(rows, summaries)):
        values = row.numbers
        ax.plot(values, place + spread(len(values)), "o", color=style.BLUE, alpha=0.55, markersize=3.5, label="prompts")
        if summary.low is not None and summary.high is not None:
            ends = [summary.low[0], summary.high[0]]
            ax.plot(ends, [place, place], color=style.VERMILION, linewidth=2, solid_capstyle="butt", label="interval")
        ax.plot(summary.mean, [place], "D", color=style.VERMILION, markersize=6, label="mean")
    name_rows(ax, [row.label for row in rows])
    margin = 0.03 * (scale.high - scale.low)
    ax.set_xlim(scale.low - margin, scale.high + margin)
    if scale.whole:
        ax.xaxis.set_major_locator(whole_numbers())
    ax.set(xlabel=scale.label, title=scale.title)


def _describe_row(row: PromptValues, summary: Summary) -> str:
    values = row.numbers
    return f"mean {summary.mean[0]:.3g}, from {values.min():.3g} to {values.max():.3g} over {len(values)} prompts"
