"""Residual stream: norms, relative contributions and cosines against depth.

Sources: csordas2025 (norms, contributions, cosines); lad2024 Fig. 10 (MLP norms); neighbour cosine: one minus
it is ShortGPT's Block Influence.
"""

from typing import Final, Literal

import numpy as np
import xarray as xr

from bathyscope.report.figures import lines, style
from bathyscope.report.figures.kind import Drawing, FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import describe
from bathyscope.store.run import Run

_RESIDUAL: Final = ("resid", "residual stream", lines.STREAM)
_CONTRIBUTIONS: Final = (
    ("attn", "attention", lines.PARTS["attention"]),
    ("mlp", "MLP", lines.PARTS["mlp"]),
    ("block", "block", lines.PARTS["block"]),
)


_BESIDE: Final = (
    "Each model over the share of its depth. Means of norms, ratios and cosines are over tokens, of largest "
    "activations over prompts; bands: as in the figures of the single runs below."
)


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Norms (all positions, without position 0, largest), largest activations, contributions and cosines."""
    data = run["residual"]
    made = [
        _norms(data, options, "norms", "", "tokens", "Mean norms of the stream and what is added"),
        _norms(data, options, "norms_rest", "_rest", "rest", "Mean norms without position 0"),
        _norms_max(data),
        *_largest(data, options),
        _contributions(data, options, "ratios", "ratio", "Contributions relative to what they are added to"),
        _contributions(data, options, "cosines", "cos", "Direction of contributions against the stream"),
        _neighbour(data, options),
        *_published(data),
    ]
    note = (
        "Residual stream and what attention, MLP and whole block add to it: L2 norms, norms relative to the "
        "stream they are added to, and cosines with it (0: a new direction; negative: erasure; positive: "
        "strengthening). Position 0 is often an attention sink with a very large norm, so means without it "
        f"are drawn apart where they were measured. {describe(options, data.sizes['prompt'])} {_where_largest(data)}"
    )
    return Drawing([one for one in made if one is not None], note, _BESIDE)


def _norms(
    data: xr.Dataset, options: FigureOptions, name: str, suffix: str, positions: lines.Positions, title: str
) -> Panel | None:
    parts = (_RESIDUAL, *_CONTRIBUTIONS)
    curves = [lines.Curve(f"norm_{key}{suffix}", label, look, positions) for key, label, look in parts]
    axis = lines.Axis(title, lines.DEPTH_LABEL, f"mean norm ({_norm_unit(data)})", "auto")
    return lines.chart(name, data, axis, curves, options)


def _norms_max(data: xr.Dataset) -> Panel | None:
    curves = [
        lines.plain(data[f"norm_{key}_max"].max("prompt"), label, look)
        for key, label, look in (_RESIDUAL, *_CONTRIBUTIONS)
        if f"norm_{key}_max" in data
    ]
    axis = lines.Axis("Largest norm of any token", lines.DEPTH_LABEL, f"largest norm ({_norm_unit(data)})", "auto")
    return lines.panel("norms_max", curves, axis)


def _largest(data: xr.Dataset, options: FigureOptions) -> list[Panel | None]:
    """The largest activation of each boundary, and how far it stands out from the median."""
    quantities = {
        "largest": ("Largest activation of any token and channel", f"|activation| ({_norm_unit(data)})"),
        "largest_ratio": ("Largest activation against the median one", "largest / median (dimensionless)"),
    }
    look = lines.Look(style.PURPLE, "o")
    return [
        lines.chart(
            name,
            data,
            lines.Axis(title, lines.BOUNDARY_LABEL, y, "auto"),
            [lines.Curve(name, "", look, "prompts")],
            options,
        )
        for name, (title, y) in quantities.items()
    ]


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


def _contributions(data: xr.Dataset, options: FigureOptions, name: str, prefix: str, title: str) -> Panel | None:
    curves = [lines.Curve(f"{prefix}_{key}", label, look) for key, label, look in _CONTRIBUTIONS]
    cosine = lines.Axis(title, lines.BLOCK_LABEL, "mean cosine (dimensionless)", rules={0.0: ""})
    ratio = lines.Axis(title, lines.BLOCK_LABEL, "ratio of norms (dimensionless)", "auto")
    return lines.chart(name, data, cosine if prefix == "cos" else ratio, curves, options)


def _neighbour(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    curve = lines.Curve("cos_neighbour", "cos(h_l, h_l+1)", lines.Look(style.PURPLE, "o"))
    axis = lines.Axis("How little one block turns the stream", lines.BLOCK_LABEL, "mean cosine (dimensionless)")
    return lines.chart("neighbour", data, axis, [curve], options)


def _published(data: xr.Dataset) -> list[Panel | None]:
    """The means that the published code computes, where a run reproduces its faults."""
    kinds = {
        "norm": ((_RESIDUAL, *_CONTRIBUTIONS), "Mean norms as published", f"mean norm ({_norm_unit(data)})"),
        "ratio": (_CONTRIBUTIONS, "Relative contributions as published", "ratio of norms (dimensionless)"),
        "cos": (_CONTRIBUTIONS, "Direction of contributions as published", "mean cosine (dimensionless)"),
    }
    made = []
    for kind, (parts, title, y) in kinds.items():
        there = [(data.get(f"published_{kind}_{key}"), label, look) for key, label, look in parts]
        curves = [lines.plain(values, label, look) for values, label, look in there if values is not None]
        scale: Literal["linear", "auto"] = "linear" if kind == "cos" else "auto"
        made.append(lines.panel(f"published_{kind}", curves, lines.Axis(title, lines.DEPTH_LABEL, y, scale)))
    return made


def _norm_unit(data: xr.Dataset) -> str:
    """Activations have no unit of their own; a ``1`` would read as if they were normalised."""
    name = next((str(name) for name in data if str(name).startswith("norm_")), None)
    given = "dimensionless" if name is None else lines.unit(data, name)
    return "activation units" if given == "dimensionless" else given


FIGURE: Final = FigureKind(
    "residual", "Residual stream", ("norm_resid", "ratio_block", "cos_block", "cos_neighbour"), _drawing
)
