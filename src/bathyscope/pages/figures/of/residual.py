"""Residual stream: norms, relative contributions and cosines against depth.

Sources: csordas2025 (norms, contributions, cosines); lad2024 Fig. 10 (MLP norms); neighbour cosine: one minus
it is ShortGPT's Block Influence.
"""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import DEPTH_LABEL, PARTS, PLACES, STREAM, Axis, Curve, Look, chart
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run


def _added(variable: str) -> list[Curve]:
    """Of attention, MLP and block, each in its place in the variable's name."""
    parts = zip(("attn", "mlp", "block"), style.PART_NAMES.values(), PARTS.values())
    return [Curve(variable.format(key), label, look) for key, label, look in parts]


def _norms(variable: str) -> list[Curve]:
    return [Curve(variable.format("resid"), "residual stream", STREAM), *_added(variable)]


# Activations have no unit of their own; a ``1`` would read as if they were normalised.
_NORM: Final = "mean norm (activation units)"
_LARGEST_NORM: Final = "largest norm (activation units)"
_ACTIVATION: Final = "|activation| (activation units)"
_OVER_MEDIAN: Final = "largest / median (dimensionless)"
_RATIO: Final = "ratio of norms (dimensionless)"
_COSINE: Final = "mean cosine (dimensionless)"
_PANELS: Final = {
    "norms": (Axis("Mean norms of the stream and what is added", DEPTH_LABEL, _NORM, "auto"), _norms("norm_{}")),
    "norms_rest": (Axis("Mean norms without position 0", DEPTH_LABEL, _NORM, "auto"), _norms("norm_{}_rest")),
    "norms_max": (Axis("Largest norm of any token", DEPTH_LABEL, _LARGEST_NORM, "auto"), _norms("norm_{}_max")),
    "largest": (
        Axis("Largest activation of any token and channel", PLACES["boundary"], _ACTIVATION, "auto"),
        [Curve("largest", "", Look(style.PURPLE), "prompts")],
    ),
    "largest_ratio": (
        Axis("Largest activation against the median one", PLACES["boundary"], _OVER_MEDIAN, "auto"),
        [Curve("largest_ratio", "", Look(style.PURPLE), "prompts")],
    ),
    "ratios": (
        Axis("Contributions relative to what they are added to", PLACES["block"], _RATIO, "auto"),
        _added("ratio_{}"),
    ),
    "cosines": (
        Axis("Direction of contributions against the stream", PLACES["block"], _COSINE, rules={0.0: ""}),
        _added("cos_{}"),
    ),
    "neighbour": (
        Axis("How little one block turns the stream", PLACES["block"], _COSINE),
        [Curve("cos_neighbour", "cos(h_l, h_l+1)", Look(style.PURPLE))],
    ),
    # the means that the published code computes, where a run reproduces its faults
    "published_norm": (Axis("Mean norms as published", DEPTH_LABEL, _NORM, "auto"), _norms("published_norm_{}")),
    "published_ratio": (
        Axis("Relative contributions as published", DEPTH_LABEL, _RATIO, "auto"),
        _added("published_ratio_{}"),
    ),
    "published_cos": (
        Axis("Direction of contributions as published", DEPTH_LABEL, _COSINE),
        _added("published_cos_{}"),
    ),
}
_BESIDE: Final = (
    "Each model over the share of its depth. Means of norms, ratios and cosines are over tokens, of largest "
    "activations over prompts; bands: as in the figures of the single runs below."
)


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Norms (all positions, without position 0, largest), largest activations, contributions and cosines."""
    data = run["residual"]
    largest = {name: values.max("prompt") for name, values in data.items() if str(name).endswith("_max")}
    made = [chart(name, data.assign(largest), axis, curves, options) for name, (axis, curves) in _PANELS.items()]
    note = (
        "Residual stream and what attention, MLP and whole block add to it: L2 norms, norms relative to the "
        "stream they are added to, and cosines with it (0: a new direction; negative: erasure; positive: "
        "strengthening). Position 0 is often an attention sink with a very large norm, so means without it "
        f"are drawn apart where they were measured. {describe(options, data.sizes['prompt'])} {_where_largest(data)}"
    )
    return Drawing([one for one in made if one is not None], note, _BESIDE)


def _where_largest(data: xr.Dataset) -> str:
    """The sentence on the channel and token that hold the largest activation most often, empty where not known."""
    if not {"largest_token", "largest_channel"} <= set(data):
        return ""
    places = np.stack([data[f"largest_{name}"].values.ravel() for name in ("token", "channel")], axis=1)
    found, counts = np.unique(places[np.isfinite(places).all(1)], axis=0, return_counts=True)
    if not counts.size:
        return ""
    token, channel = found[counts.argmax()]
    return (
        f"Largest activations: in {counts.max() / counts.sum():.0%} of all prompts and boundaries at token "
        f"{token:.0f}, channel {channel:.0f}; their lines count each prompt the same."
    )


FIGURE: Final = FigureKind(
    "residual", "Residual stream", ("norm_resid", "ratio_block", "cos_block", "cos_neighbour"), _drawing
)
