"""Attention locality: where attention goes, block by block: tokens before, the token itself, the first one.

Source: lad2024 (attention to the previous tokens).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import BLOCK_LABEL, PLACES, Axis, Curve, Look, chart
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


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Weights by place, by offset, and by head."""
    data = run["attention_locality"]
    counted = data.assign(
        n_averaged_total_prev5=("prompt", _queries(data, _PREVIOUS)),
        n_averaged_self_weight=("prompt", _queries(data, [0])),
        n_averaged_first_key=("prompt", _queries(data, [1])),
        n_averaged_weight=(("offset", "prompt"), [_queries(data, [offset]) for offset in data["offset"].values]),
    )
    offsets = [
        Curve("weight", f"i = {offset}", look, at={"offset": offset})
        for offset, look in zip(data["offset"].values.tolist(), _OFFSETS)
    ]
    panels = [
        chart("places", counted, _WHERE, _PLACES, options),
        chart("offsets", counted, _BEFORE, offsets, options),
        _heads(data, options),
    ]
    without = [int(block) for block in data["block"] if not np.isfinite(data["total_prev5"].sel(block=block)).any()]
    blank = f" Blocks {', '.join(map(str, without))} show no attention weights." if without else ""
    note = (
        "Attention weights, means over heads and queries; the total over the five tokens before is five times the mean "
        "over such pairs. Near the start of a prompt the first token is also one of those before, and it often is an "
        f"attention sink, so it is shown apart.{blank} {describe(options, data.sizes['prompt'])} A prompt has as many "
        "tokens there as have the key in question."
    )
    return Drawing([one for one in panels if one is not None], note)


def _queries(data: xr.Dataset, offsets: Sequence[int]) -> NDArray[np.int64]:
    """(P,), how many pairs of a query and a key that many tokens before it each prompt has: what its means are over."""
    lengths_P = data["n_tokens"].values
    return np.asarray(sum(np.maximum(lengths_P - offset, 0) for offset in offsets), dtype=np.int64)


def _heads(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    total = PREVIOUS * data["head_prev5"].transpose("prompt", "block", "head").values
    pairs = _queries(data, _PREVIOUS)
    mean = weighted_mean(total, np.sign(pairs) if options.weighting == "prompts" else pairs)
    if not np.isfinite(mean).any():
        return None
    shown = HeatMap(
        values=mean,
        title="Each head's attention to the five tokens before",
        rows=Side(BLOCK_LABEL, "block"),
        columns=Side(PLACES["head"], "head"),
        quantity="attention weight on the five tokens before, together (dimensionless, linear)",
        short="weight",
        colours=Colours.spanning(mean, "linear", clips=False),
    )
    return multiples.alone("heads", shown)


FIGURE: Final = FigureKind("attention_locality", "Attention locality", ("weight", "total_prev5"), _drawing)
