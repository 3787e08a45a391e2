"""Sub-joiner heads: which heads gather the tokens of a word, on words that they were not ranked on.

Drawn from what ``bathyscope.probing.subjoiner`` gives. Source: lad2024 (sub-joiner heads).
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.report.figures import multiples, style
from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.forest import name_rows
from bathyscope.report.figures.heat_map import HeatMap, Side
from bathyscope.report.figures.kind import Drawing, Panel
from bathyscope.report.figures.lines import BLOCK_LABEL, PLACES

_SCORE: Final = "sub-joiner score (dimensionless)"


def drawing(data: xr.Dataset) -> Drawing:
    """A map of all heads, and the first ones with their intervals, under a caption."""
    held_out = data["held_out"].values
    split = int((held_out & data["split"].values).sum())
    n = data.attrs["pieces"]
    note = (
        f"{data.attrs['model']}: attention that a word's last token gives to the {n - 1} tokens before it, in words of "
        f"{n} tokens minus in words of one; heads ranked on one half of the words and shown on the other ({split} "
        f"words of {n} tokens, {int(held_out.sum()) - split} of one); bars: {data.attrs['level']:.0%} bootstrap "
        "intervals, resampling these words."
    )
    size = (style.PANEL_SIZE[0], max(style.PANEL_SIZE[1], 1.2 + 0.26 * data.sizes["rank"]))
    top = Panel("top", partial(_draw_top, data=data), _alt(data), size)
    return Drawing([multiples.alone("heads", _heat(data)), top], note)


def _heat(data: xr.Dataset) -> HeatMap:
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


def _draw_top(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    places = np.arange(data.sizes["rank"])
    ax.hlines(places, data["ci_low"], data["ci_high"], color=style.BLUE, linewidth=2.5)
    ax.plot(data["top_score"], places, "o", color=style.BLUE, markersize=6, label="score")
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    name_rows(ax, _names(data))
    ax.set_xlabel(_SCORE)
    ax.set_ylabel("head, best on the other half first (0-based index)")
    ax.set_title("Heads of the highest ranks, held-out words")


def _names(data: xr.Dataset) -> list[str]:
    return [f"block {b}, head {h}" for b, h in zip(data["top_block"].values, data["top_head"].values)]


def _alt(data: xr.Dataset) -> str:
    columns = (data[name].values for name in ("top_score", "ci_low", "ci_high"))
    said = (f"{name}: {score:.3g} ({low:.3g} to {high:.3g})" for name, score, low, high in zip(_names(data), *columns))
    return f"Dots with intervals, sub-joiner scores of the heads of the highest ranks. {'; '.join(said)}."
