"""Sub-joiner heads: which heads gather the tokens of a word, on words that did not enter the ranking.

Drawn from the result of ``bathyscope.analysis.probes.subjoiner``. Source: lad2024 (sub-joiner heads).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.forest import EstimateRow, draw_rows
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, PLACES

_SCORE: Final = "sub-joiner score (dimensionless)"


def drawing(data: xr.Dataset) -> Drawing:
    """Draw a map of all heads, and the first ones with their intervals, under a caption."""
    held_out = data["held_out"].values
    split = int((held_out & data["split"].values).sum())
    n = data.attrs["pieces"]
    note = (
        f"{data.attrs['model']}: attention that a word's last token gives to the {n - 1} tokens before it, in words of "
        f"{n} tokens minus in words of one; heads ranked on one half of the words and shown on the other ({split} "
        f"words of {n} tokens, {int(held_out.sum()) - split} of one); bars: {level_text(data.attrs['level'])} "
        "bootstrap intervals, resampling these words."
    )
    columns = ("top_block", "top_head", "top_score", "ci_low", "ci_high")
    rows = [
        EstimateRow(f"block {block}, head {head}", style.BLUE, score, low, high, "o")
        for block, head, score, low, high in zip(*(data[name].values for name in columns))
    ]
    size = (style.PANEL_SIZE[0], max(style.PANEL_SIZE[1], 1.2 + 0.26 * len(rows)))
    descriptions = "; ".join(f"{row.label}: {Estimate(row.value, row.low, row.high):.3g}" for row in rows)
    alt = f"Dots with intervals, sub-joiner scores of the heads of the highest ranks. {descriptions}."
    top = Panel("top", partial(_draw_top, rows=rows), alt, size)
    return Drawing([multiples.make_map_panel("heads", _make_map(data)), top], note)


def _make_map(data: xr.Dataset) -> HeatMap:
    values = data["score"].transpose("block", "head").values
    return HeatMap(
        values=values,
        title="Sub-joiner heads, held-out words",
        rows=Side(BLOCK_LABEL, "block"),
        columns=Side(PLACES["head"], "head"),
        quantity=_SCORE,
        short="score",
        colours=Colours.spanning(values, "signed", clips=False),
    )


def _draw_top(figure: FigureBase, rows: Sequence[EstimateRow]) -> None:
    ax = figure.subplots()
    draw_rows(ax, rows, size=6)
    ax.axvline(0, **style.BROKEN, zorder=1)
    ax.set(xlabel=_SCORE, ylabel="head, best on the other half first (0-based index)")
    ax.set_title("Heads of the highest ranks, held-out words")
