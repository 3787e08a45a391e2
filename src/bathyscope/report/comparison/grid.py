"""Grid of runs: the three curves behind effective depth, side by side, over the share of the depth.

Source: hu2025, residual cosine and logit lens.
"""

import math
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from bathyscope.comparison import Comparison
from bathyscope.comparison.side import Side
from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Drawing, Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import Summary, describe, summarise
from bathyscope.statistics.effective_depth import blocks_done

_CELL: Final = (2.3, 1.9)
_COLUMNS: Final = 4
_TITLE_LETTERS: Final = 30


class _Curve(NamedTuple):
    """One kind of curve: its title, axis, colour, reference line, and estimator."""

    title: str
    y: str
    colour: str
    rule: float | None
    estimator: str


_CURVES: Final = {
    "cosine": _Curve("Mean of the three cosines", "cosine", style.BLUE, 0.0, "cosine"),
    "kl": _Curve("KL of the lens from the final prediction", "KL over its maximum", style.VERMILION, None, "kl"),
    "overlap": _Curve("Top-k overlap of lens and final prediction", "overlap (share)", style.GREEN, None, "overlap"),
}


def drawing(comparison: Comparison) -> Drawing:
    """Three panels, cosine, KL and overlap, each a grid with one cell a run; those without any value left out."""
    made: list[Panel] = []
    for name, curve in _CURVES.items():
        cells = [(side, _summary(side, name)) for side in comparison.sides]
        if not any(np.isfinite(summary.mean).any() for _, summary in cells):
            continue
        across = min(_COLUMNS, len(cells))
        down = math.ceil(len(cells) / across)
        size = (max(style.PANEL_SIZE[0], across * _CELL[0]), down * _CELL[1] + 0.9)
        ratios = [_ratio(comparison, side.name, curve.estimator) for side in comparison.sides]
        draw = partial(_draw, cells=cells, ratios=ratios, curve=curve, across=across)
        made.append(Panel(f"grid-{name}", draw, _alt(cells, ratios, curve), size))
    prompts = min(len(side.prompts) for side in comparison.sides)
    note = (
        "Each cell is one run, over the share of its blocks that are done, so that models of different size lie "
        f"beneath each other. {describe(FigureOptions(), prompts)} Vertical line: the effective depth ratio by this "
        "curve. KL is divided by its largest value, since its threshold is a share of that."
    )
    return Drawing(made, note, heading="Curves of the runs")


def _summary(side: Side, name: str) -> Summary:
    values: NDArray[np.float64] = getattr(side.curves, name)
    found = summarise(values, side.curves.weights(name), FigureOptions())
    if name != "kl" or not np.isfinite(found.mean).any():
        return found
    largest = np.nanmax(found.mean)
    if largest <= 0:
        return found
    return Summary(*(None if part is None else part / largest for part in (found.mean, found.low, found.high)))  # type: ignore[arg-type]


def _ratio(comparison: Comparison, run: str, estimator: str) -> float:
    if estimator not in comparison.runs["estimator"].values:
        return math.nan
    return float(comparison.runs["ratio"].sel(run=run, estimator=estimator))


def _draw(
    figure: FigureBase,
    cells: Sequence[tuple[Side, Summary]],
    ratios: Sequence[float],
    curve: _Curve,
    across: int,
) -> None:
    down = math.ceil(len(cells) / across)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(cells) :]:
        ax.set_visible(False)
    for ax, (side, summary), ratio in zip(axes.flat, cells, ratios):
        x = (np.arange(side.n_blocks) + blocks_done(f"interpolated_{curve.estimator}")) / side.n_blocks
        ax.plot(x, summary.mean, color=curve.colour)
        if summary.low is not None and summary.high is not None:
            ax.fill_between(x, summary.low, summary.high, color=curve.colour, alpha=0.22, linewidth=0)
        if curve.rule is not None:
            ax.axhline(curve.rule, color=style.MUTED, linewidth=0.8)
        if not math.isnan(ratio):
            ax.axvline(ratio, color=style.INK, linestyle=":", linewidth=1.2)
        ax.set_title(textwrap.fill(f"{side.name} (L = {side.n_blocks})", _TITLE_LETTERS), fontsize=8)
        ax.set_xlim(0, 1)
    figure.suptitle(curve.title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    figure.supxlabel("blocks done / L", fontsize=9)
    figure.supylabel(curve.y, fontsize=9)


def _alt(cells: Sequence[tuple[Side, Summary]], ratios: Sequence[float], curve: _Curve) -> str:
    said = []
    for (side, summary), ratio in zip(cells, ratios):
        at = "no crossing" if math.isnan(ratio) else f"effective depth ratio {ratio:.2f}"
        first, last = summary.mean[0], summary.mean[-1]
        said.append(f"{side.name}: {first:.2g} at the first block, {last:.2g} at the last, {at}")
    return f"Grid of line charts, {curve.title.lower()}, one a run. {'; '.join(said)}."
