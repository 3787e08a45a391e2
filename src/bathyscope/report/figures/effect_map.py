"""A map of effects, skipped block against affected block, with bars of the output's change beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from bathyscope.report.figures import style
from bathyscope.report.figures.lines import log_ticks, whole_numbers

Array = NDArray[np.float64]

_CLIP_QUANTILE: Final = 0.995
# Colours are clipped only where the largest value is at least this many times the quantile.
_CLIP_FROM: Final = 2.0
_LOG_RANGE: Final = 1e-4


@dataclass(frozen=True)
class EffectMap:
    """What a map shows; rows and columns are blocks 0 … L−1.

    Args:
        effect: (skipped, affected), NaN where nothing was measured.
        output: (skipped), change of the output, NaN where nothing was measured.
        fixed: (skipped, affected), cells whose value follows from the definition; left blank.
        title: what is seen.
        reduction: how tokens and prompts were reduced, in words.
        scale: of the colours, linear or log.
    """

    effect: Array
    output: Array
    fixed: NDArray[np.bool_]
    title: str
    reduction: str
    scale: str

    @property
    def visible(self) -> Array:
        """The effects, blank cells as NaN."""
        return np.where(self.fixed, np.nan, self.effect)

    @property
    def seen(self) -> Array:
        """The visible values in one row."""
        visible = self.visible
        return visible[np.isfinite(visible)]

    @property
    def ceiling(self) -> float:
        """The value at the end of the colours: the largest one, or the 99.5th percentile where a few cells
        would otherwise leave all others in the darkest colours."""
        top, usual = float(self.seen.max()), float(np.quantile(self.seen, _CLIP_QUANTILE))
        chosen = usual if top > _CLIP_FROM * usual > 0 else top
        return chosen if chosen > 0 else 1.0

    @property
    def floor(self) -> float:
        """The value at the start of the colours: 0, or on a logarithmic scale at most four decades below."""
        if self.scale == "linear":
            return 0.0
        positive = self.seen[self.seen > 0]
        return max(float(positive.min()), self.ceiling * _LOG_RANGE) if positive.size else self.ceiling * _LOG_RANGE

    @property
    def unmeasured(self) -> NDArray[np.bool_]:
        """Rows without any value where one should be."""
        return np.asarray((~self.fixed).any(1) & ~np.isfinite(self.visible).any(1))


def draw_map(figure: FigureBase, shown: EffectMap) -> None:
    """Fill an empty figure: the map, bars at its right, the colour bar below."""
    left, right = figure.subplots(1, 2, width_ratios=(1, 0.26), sharey=True)
    L = len(shown.output)
    image = left.imshow(
        np.ma.masked_invalid(shown.visible),
        cmap=mpl.colormaps[style.EFFECT_MAP].with_extremes(over=style.CLIPPED, bad=(0, 0, 0, 0)),
        norm=_norm(shown),
        aspect="auto",
        interpolation="none",
    )
    for row in np.flatnonzero(shown.unmeasured):
        left.axhspan(row - 0.5, row + 0.5, hatch="////", facecolor="none", edgecolor=style.MUTED, linewidth=0)
    left.set_facecolor(style.VOID)
    left.grid(visible=False)
    left.set_title(shown.title)
    left.set_xlabel("affected block (0-based index)")
    left.set_ylabel("skipped block (0-based index)")
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_locator(whole_numbers())
    _draw_output(right, shown.output)
    left.set_ylim(L - 0.5, -0.5)
    _draw_colour_bar(figure, image, shown, [left, right])


def describe_map(shown: EffectMap) -> str:
    """The sentence on clipped colours and unmeasured rows, empty where there are none."""
    said = []
    clipped = int((shown.seen > shown.ceiling).sum())
    if clipped:
        said.append(
            f"{shown.title}: {clipped} of {shown.seen.size} cells above {shown.ceiling:.3g} (largest "
            f"{shown.seen.max():.3g}) are drawn in magenta."
        )
    if shown.unmeasured.any():
        rows = ", ".join(str(row) for row in np.flatnonzero(shown.unmeasured))
        said.append(f"{shown.title}: hatched rows ({rows}) were not measured.")
    return " ".join(said)


def describe_for_blind(shown: EffectMap) -> str:
    """The alternative text."""
    row, column = np.unravel_index(np.nanargmax(shown.visible), shown.visible.shape)
    return (
        f"Heat map of {len(shown.output)} skipped by {len(shown.output)} affected blocks. {shown.title}, "
        f"{shown.reduction}: median {np.median(shown.seen):.3g}, largest {shown.seen.max():.3g} where block "
        f"{row} is skipped and block {column} affected. {_describe_output(shown.output)}"
    )


def _describe_output(output: Array) -> str:
    if not np.isfinite(output).any():
        return "The change of the output was not measured."
    worst, best = int(np.nanargmax(output)), int(np.nanargmin(output))
    return (
        f"Bars: the output changes most, {output[worst]:.3g}, without block {worst}, and least, "
        f"{output[best]:.3g}, without block {best}."
    )


def _norm(shown: EffectMap) -> Normalize:
    if shown.scale == "log":
        low = shown.floor
        return LogNorm(low, shown.ceiling if shown.ceiling > low else low * 10)
    return Normalize(shown.floor, shown.ceiling)


def _draw_output(ax: Axes, output: Array) -> None:
    height = 0.8 if len(output) <= style.MARKERS_UP_TO else 1.0
    ax.barh(np.arange(len(output)), output, height=height, color=style.VERMILION)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=2))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("output change\n(L2, 0 to √2)", fontsize=8)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", left=False, labelleft=False)


def _draw_colour_bar(figure: FigureBase, image: AxesImage, shown: EffectMap, beside: list[Axes]) -> None:
    above, below = bool((shown.seen > shown.ceiling).any()), bool((shown.seen < shown.floor).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min", (False, False): "neither"}
    bar = figure.colorbar(image, ax=beside, location="bottom", aspect=45, extend=extend[above, below])
    if shown.scale == "log":
        bar.locator = log_ticks(*image.get_clim())
    bar.set_label(
        f"relative change of the block's contribution\n(dimensionless, {shown.scale} scale; {shown.reduction})",
        fontsize=8,
    )
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    bar.ax.xaxis.set_minor_formatter(NullFormatter())
