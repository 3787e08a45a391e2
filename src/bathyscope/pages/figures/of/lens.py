"""Logit lens: how far the prediction read from each boundary is from the final one.

Sources: csordas2025 (KL, overlap); lad2024 (entropy); hu2025 (both as criteria of effective depth).
"""

from dataclasses import replace
from typing import Final

import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit import lines, strip, style
from bathyscope.pages.figures.kit.strip import Row, Scale
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.runs.run import Run

_NORM_LINES: Final = ("-", "--", ":")
"""Dashes tell the norm, the first drawn solid; colour and mark the quantity."""

_SETTLED: Final = {
    "settle_depth": "settle depth",
    "prediction_depth": "prediction depth",
    "deep_thinking_ratio": "deep-thinking ratio",
}
_LATE: Final = Scale("Tokens that settle late", "share of tokens", 0, 1)
_SETTLING: Final = (
    " Dots: prompts; diamond: their mean, weighted as lines are, with its interval. Settle depth: the first boundary "
    "at which a token's prediction comes within 0.5 bits (Jensen–Shannon) of the final one; prediction depth: the "
    "first from which on its top-1 token is the final one; deep-thinking ratio: share of tokens that settle in the "
    "last 15 % of the model."
)

_TWO_NORMS: Final = (
    " Recompute: the final norm as the model would apply it there. Frozen: the stream divided by its scale at the "
    "final boundary. The stream grows with depth, so that the frozen lens shrinks the logits of early boundaries "
    "towards a uniform prediction, with an entropy near log2 of the vocabulary: where its entropy falls and the "
    "recomputed one does not, that is growth of the norm alone. lad2024 first drew the frozen one."
)

_TOKENS: Final = {
    "inner": " Of each prompt the first and the last token are left out.",
    "answer": " The tokens are those that predict the prompts' answers.",
}

_PANELS: Final = {
    "kl": (
        lines.Axis("Distance from the final prediction", lines.BOUNDARY_LABEL, "KL divergence ({unit})"),
        (
            lines.Curve("kl_lens_final", "KL(lens ‖ final)", lines.Look(style.BLUE)),
            lines.Curve("kl_final_lens", "KL(final ‖ lens)", lines.Look(style.VERMILION, "s", "--")),
        ),
    ),
    "agreement": (
        lines.Axis("Agreement with the final prediction", lines.BOUNDARY_LABEL, "share of tokens ({unit})"),
        (
            lines.Curve("overlap", "top-{k} overlap", lines.Look(style.GREEN)),
            lines.Curve("top1_agreement", "same top-1 token", lines.Look(style.PURPLE, "s", "--")),
        ),
    ),
    "entropy": (
        lines.Axis("Uncertainty of the lens prediction", lines.BOUNDARY_LABEL, "entropy ({unit})", apart=True),
        (lines.Curve("entropy", "entropy", lines.Look(style.BLUE)),),
    ),
    "cross_entropy": (
        lines.Axis("Loss of the lens prediction", lines.BOUNDARY_LABEL, "cross-entropy of the next token ({unit})"),
        (lines.Curve("cross_entropy", "cross-entropy", lines.Look(style.VERMILION)),),
    ),
}


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """KL in both directions, top-k overlap with top-1 agreement, entropy, cross-entropy, where predictions settle."""
    data = run["lens"]
    asked = measure_options(run, "lens")
    k, tokens = asked.get("k", "k"), _TOKENS.get(str(asked.get("positions")), "")
    made = [
        lines.chart(name, data, axis, [own for curve in curves for own in _each_norm(data, curve, k)], options)
        for name, (axis, curves) in _PANELS.items()
    ]
    last = int(data["boundary"].values[-1])
    boundaries = Scale("Where predictions settle", "boundary (index, mean over tokens)", 0, last, whole=True)
    settling = [*_rows(data, "settle_depth"), *_rows(data, "prediction_depth")]
    made += [
        strip.panel("settling", settling, boundaries, options),
        strip.panel("deep_thinking", _rows(data, "deep_thinking_ratio"), _LATE, options),
    ]
    return Drawing([one for one in made if one is not None], _note(data, options, tokens))


def _note(data: xr.Dataset, options: FigureOptions, tokens: str) -> str:
    """What the lens is, which norms were used, and which tokens."""
    norms = [str(norm) for norm in data["norm"].values] if "norm" in data.dims else []
    norm = f" Final norm: {' (solid) and '.join(norms)} (broken line).{_TWO_NORMS}" if len(norms) > 1 else ""
    return (
        "Logit lens: final norm and unembedding applied to the residual stream at every boundary, compared "
        "with the model's own prediction; at the last boundary the two are the same."
        + norm
        + f" {describe(options, data.sizes['prompt'])}"
        + tokens
        + (_SETTLING if _SETTLED.keys() & set(data) else "")
    )


def _each_norm(data: xr.Dataset, curve: lines.Curve, k: object) -> list[lines.Curve]:
    """The variable once, or once for each norm."""
    named = replace(curve, label=curve.label.format(k=k))
    if "norm" not in data.get(curve.name, xr.DataArray()).dims:
        return [named]
    return [
        replace(named, label=f"{named.label}, {norm}", look=replace(curve.look, line=line), at={"norm": norm})
        for norm, line in zip(data["norm"].values, _NORM_LINES)
    ]


def _rows(data: xr.Dataset, name: str) -> list[Row]:
    """The quantity once, or once for each norm."""
    if name not in data:
        return []
    label, weights = _SETTLED[name], token_weights(data, name)
    if "norm" not in data[name].dims:
        return [Row(label, data[name], weights)]
    return [Row(f"{label},\n{norm}", data[name].sel(norm=norm), weights) for norm in data["norm"].values]


FIGURE: Final = FigureKind(
    "lens", "Logit lens", tuple(one.name for _, curves in _PANELS.values() for one in curves), _drawing
)
