"""Residual stream: norms, relative contributions and cosines against depth.

Sources: csordas2025 (norms, contributions, cosines); lad2024 Fig. 10 (MLP norms); neighbour cosine: one minus
it is ShortGPT's Block Influence.
"""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import DEPTH_LABEL, PARTS, PLACES, STREAM, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run


def _list_part_curves(variable: str) -> list[Curve]:
    """Return the curves of attention, MLP and block, whose keys are in the variable's name."""
    parts = zip(("attn", "mlp", "block"), style.PART_NAMES.values(), PARTS.values())
    return [Curve(variable.format(key), label, look) for key, label, look in parts]


def _list_norm_curves(variable: str) -> list[Curve]:
    return [Curve(variable.format("resid"), "residual stream", STREAM), *_list_part_curves(variable)]


# Activations have no unit; a ``1`` would suggest that they were normalised.
_NORM: Final = "mean norm (activation units)"
_LARGEST_NORM: Final = "largest norm (activation units)"
_ACTIVATION: Final = "|activation| (activation units)"
_OVER_MEDIAN: Final = "largest / median (dimensionless)"
_RATIO: Final = "ratio of norms (dimensionless)"
_COSINE: Final = "mean cosine (dimensionless)"
_PANELS: Final = {
    "norms": (
        Axis("Mean norms of the stream and what is added", DEPTH_LABEL, _NORM, "auto"),
        _list_norm_curves("norm_{}"),
    ),
    "norms_rest": (
        Axis("Mean norms without position 0", DEPTH_LABEL, _NORM, "auto"),
        _list_norm_curves("norm_{}_rest"),
    ),
    "norms_max": (
        Axis("Largest norm of any token", DEPTH_LABEL, _LARGEST_NORM, "auto"),
        _list_norm_curves("norm_{}_max"),
    ),
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
        _list_part_curves("ratio_{}"),
    ),
    "cosines": (
        Axis("Direction of contributions against the stream", PLACES["block"], _COSINE, rules={0.0: ""}),
        _list_part_curves("cos_{}"),
    ),
    "neighbour": (
        Axis("How little one block turns the stream", PLACES["block"], _COSINE),
        [Curve("cos_neighbour", "cos(h_l, h_l+1)", Look(style.PURPLE))],
    ),
    # Means as the published code computes them, in runs that reproduce its faults.
    "published_norm": (
        Axis("Mean norms as published", DEPTH_LABEL, _NORM, "auto"),
        _list_norm_curves("published_norm_{}"),
    ),
    "published_ratio": (
        Axis("Relative contributions as published", DEPTH_LABEL, _RATIO, "auto"),
        _list_part_curves("published_ratio_{}"),
    ),
    "published_cos": (
        Axis("Direction of contributions as published", DEPTH_LABEL, _COSINE),
        _list_part_curves("published_cos_{}"),
    ),
}
_JOINT_NOTE: Final = (
    "Each model over the share of its depth. Means of norms, ratios and cosines are over tokens, of largest "
    "activations over prompts; bands: as in the figures of the single runs below."
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw norms (mean, without position 0, largest), largest activations, contributions and cosines."""
    data = run["residual"]
    # A largest value over tokens is followed by the largest over prompts: a mean of maxima would be neither.
    largest = {name: values.max("prompt") for name, values in data.items() if str(name).endswith("_max")}
    panels = [make_chart(name, data.assign(largest), axis, curves, options) for name, (axis, curves) in _PANELS.items()]
    note = (
        "Residual stream and what attention, MLP and whole block add to it: L2 norms, norms relative to the "
        "stream they are added to, and cosines with it (0: a new direction; negative: erasure; positive: "
        "strengthening). Position 0 is often an attention sink with a very large norm, so means without it "
        f"are also drawn where measured. {describe(options, data.sizes['prompt'])} {_locate_largest(data)}"
    )
    return Drawing(drop_empty(panels), note, _JOINT_NOTE)


def _locate_largest(data: xr.Dataset) -> str:
    """Write which token and channel hold the largest activation most often; empty where unknown."""
    if not {"largest_token", "largest_channel"} <= set(data):
        return ""
    places = np.stack([data[f"largest_{name}"].values.ravel() for name in ("token", "channel")], axis=1)
    distinct, counts = np.unique(places[np.isfinite(places).all(1)], axis=0, return_counts=True)
    if not counts.size:
        return ""
    token, channel = distinct[counts.argmax()]
    return (
        f"Largest activations: in {counts.max() / counts.sum():.0%} of all prompts and boundaries at token "
        f"{token:.0f}, channel {channel:.0f}; their lines count each prompt the same."
    )


FIGURE: Final = FigureKind(
    "residual", "Residual stream", ("norm_resid", "ratio_block", "cos_block", "cos_neighbour"), _make_drawing
)
