"""Attention locality: how much attention goes to earlier tokens, the token itself and the first token, by block.

Source: lad2024 (attention to the previous tokens).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, PLACES, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run
from bathyscope.statistics.reduce import weighted_mean

PREVIOUS: Final = 5
_PREVIOUS: Final = range(1, PREVIOUS + 1)
_WEIGHT: Final = "attention (dimensionless)"
_OFFSETS: Final = (
    Look(style.BLUE, "o"),
    Look(style.VERMILION, "s", "--"),
    Look(style.GREEN, "^", "-."),
    Look(style.PURPLE, "D", ":"),
    Look(style.MUTED, "v"),
    Look(style.INK, "x", "--"),
)
_PLACES: Final = (
    Curve("total_prev5", "five tokens before, together", Look(style.BLUE, "o")),
    Curve("self_weight", "token itself", Look(style.VERMILION, "s", "--")),
    Curve("first_key", "first token", Look(style.MUTED, "D", ":")),
)
_WHERE: Final = Axis("Where attention goes", BLOCK_LABEL, _WEIGHT)
_BEFORE: Final = Axis("Attention to the token i before", BLOCK_LABEL, _WEIGHT, "auto")


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw attention weights by place, by offset and by head."""
    data = run["attention_locality"]
    counted = data.assign(
        # A key at distance k exists only from token k on, so means over pairs have other counts than means over tokens.
        n_averaged_total_prev5=("prompt", _count_pairs(data, _PREVIOUS)),
        n_averaged_self_weight=("prompt", _count_pairs(data, [0])),
        n_averaged_first_key=("prompt", _count_pairs(data, [1])),
        n_averaged_weight=(("offset", "prompt"), [_count_pairs(data, [offset]) for offset in data["offset"].values]),
    )
    offsets = [
        Curve("weight", f"i = {offset}", look, at={"offset": offset})
        for offset, look in zip(data["offset"].values.tolist(), _OFFSETS)
    ]
    panels = [
        make_chart("places", counted, _WHERE, _PLACES, options),
        make_chart("offsets", counted, _BEFORE, offsets, options),
        _make_head_panel(data, options),
    ]
    without = [int(block) for block in data["block"] if not np.isfinite(data["total_prev5"].sel(block=block)).any()]
    blank = f" Blocks {', '.join(map(str, without))} show no attention weights." if without else ""
    note = (
        "Attention weights, means over heads and queries. The total over the five tokens before is five times the mean "
        "over such pairs. Near the start of a prompt the first token is also one of those before, and it often is an "
        f"attention sink, so it has its own curve.{blank} {describe(options, data.sizes['prompt'])} Only tokens that "
        "have the key in question count."
    )
    return Drawing(drop_empty(panels), note)


def _count_pairs(data: xr.Dataset, offsets: Sequence[int]) -> NDArray[np.int64]:
    """Count each prompt's pairs of a query and a key at these offsets (P,), which its means are over."""
    lengths_P = data["n_tokens"].values
    return np.asarray(sum(np.maximum(lengths_P - offset, 0) for offset in offsets), dtype=np.int64)


def _make_head_panel(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    total = PREVIOUS * data["head_prev5"].transpose("prompt", "block", "head").values
    pairs = _count_pairs(data, _PREVIOUS)
    mean = weighted_mean(total, np.sign(pairs) if options.weighting == "prompts" else pairs)
    if not np.isfinite(mean).any():
        return None
    heat = HeatMap(
        values=mean,
        title="Each head's attention to the five tokens before",
        rows=Side(BLOCK_LABEL, "block"),
        columns=Side(PLACES["head"], "head"),
        quantity="attention weight on the five tokens before, together (dimensionless, linear)",
        short="weight",
        colours=Colours.spanning(mean, "linear", clips=False),
    )
    return multiples.make_map_panel("heads", heat)


FIGURE: Final = FigureKind("attention_locality", "Attention locality", ("weight", "total_prev5"), _make_drawing)
