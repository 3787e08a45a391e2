"""Logit lens: how far the prediction read from each boundary is from the final one.

Sources: csordas2025 (KL, overlap); lad2024 (entropy); hu2025 (both as criteria of effective depth).
"""

from dataclasses import replace
from typing import Final

import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import strip, style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Curve, Look
from bathyscope.pages.figures.kit.strip import PromptValues, Scale
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.of.loop_panels import describe_exits, make_exits
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run

_NORM_LINES: Final = ("-", "--", ":")
"""Dashes tell the norm, of which the first is solid; colour and marker tell the quantity."""

_SETTLED: Final = {
    "settle_depth": "settle depth",
    "prediction_depth": "prediction depth",
    "deep_thinking_ratio": "deep-thinking ratio",
}
_LATE: Final = Scale("Tokens that settle late", "share of tokens", 0, 1)
_SETTLING: Final = (
    " Dots: prompts; diamond: their mean, weighted as lines are, with its interval. Settle depth: the first boundary "
    "at which a token's prediction comes within 0.5 bits (Jensen–Shannon) of the final one; prediction depth: the "
    "first boundary after which its top-1 token no longer changes; deep-thinking ratio: share of tokens that settle in "
    "the last 15 % of the model."
)

_TWO_NORMS: Final = (
    " Recompute: the final norm as the model would apply it there. Frozen: the stream divided by its scale at the "
    "final boundary. The stream grows with depth, so the frozen lens shrinks the logits of early boundaries "
    "towards a uniform prediction, with an entropy near log2 of the vocabulary. Where only the frozen entropy falls, "
    "the norm alone grows. lad2024 first drew the frozen lens."
)

_TOKENS: Final = {
    "inner": " Of each prompt the first and the last token are left out.",
    "answer": " The tokens are those that predict the prompts' answers.",
}

_PANELS: Final = {
    "kl": (
        Axis("Distance from the final prediction", BOUNDARY_LABEL, "KL divergence ({unit})"),
        (
            Curve("kl_lens_final", "KL(lens ‖ final)", Look(style.BLUE)),
            Curve("kl_final_lens", "KL(final ‖ lens)", Look(style.VERMILION, "s", "--")),
        ),
    ),
    "agreement": (
        Axis("Agreement with the final prediction", BOUNDARY_LABEL, "share of tokens ({unit})"),
        (
            Curve("overlap", "top-{k} overlap", Look(style.GREEN)),
            Curve("top1_agreement", "same top-1 token", Look(style.PURPLE, "s", "--")),
        ),
    ),
    "entropy": (
        Axis("Uncertainty of the lens prediction", BOUNDARY_LABEL, "entropy ({unit})", apart=True),
        (Curve("entropy", "entropy", Look(style.BLUE)),),
    ),
    "cross_entropy": (
        Axis("Loss of the lens prediction", BOUNDARY_LABEL, "cross-entropy of the next token ({unit})"),
        (Curve("cross_entropy", "cross-entropy", Look(style.VERMILION)),),
    ),
    "gate": (
        Axis("Where the learned gate ends tokens", BOUNDARY_LABEL, "share of tokens ({unit})"),
        (Curve("gate_exit", "ended by the gate", Look(style.GREEN)),),
    ),
}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw KL in both directions, agreement, entropy, cross-entropy, and where predictions settle."""
    data = run["lens"]
    settings = measure_options(run, "lens")
    k, tokens = settings.get("k", "k"), _TOKENS.get(str(settings.get("positions")), "")
    panels = [
        make_chart(
            name,
            _where_read(data, name),
            axis,
            [norm_curve for curve in curves for norm_curve in _split_norms(data, curve, k)],
            options,
        )
        for name, (axis, curves) in _PANELS.items()
    ]
    last = int(data["boundary"].values[-1])
    boundaries = Scale("Where predictions settle", "boundary (index, mean over tokens)", 0, last, whole=True)
    settling = [*_list_rows(data, "settle_depth"), *_list_rows(data, "prediction_depth")]
    panels += [
        strip.make_panel("settling", settling, boundaries, options),
        strip.make_panel("deep_thinking", _list_rows(data, "deep_thinking_ratio"), _LATE, options),
        make_exits(data),
    ]
    return Drawing(drop_empty(panels), _write_note(data, options, tokens))


def _where_read(data: xr.Dataset, panel: str) -> xr.Dataset:
    """Return the boundaries that a panel draws: those that the learned gate reads, and all of other panels."""
    return data.dropna("boundary", how="all", subset=["gate_exit"]) if panel == "gate" and "gate_exit" in data else data


def _write_note(data: xr.Dataset, options: FigureOptions, tokens: str) -> str:
    """Write what the lens is, which norms were used, and which tokens."""
    norms = [str(norm) for norm in data["norm"].values] if "norm" in data.dims else []
    norm = f" Final norm: {' (solid) and '.join(norms)} (broken line).{_TWO_NORMS}" if len(norms) > 1 else ""
    return (
        "Logit lens: final norm and unembedding applied to the residual stream at every boundary, compared "
        "with the model's own prediction; at the last boundary the two are the same."
        + norm
        + f" {describe(options, data.sizes['prompt'])}"
        + tokens
        + (_SETTLING if _SETTLED.keys() & set(data) else "")
        + describe_exits(data)
    )


def _split_norms(data: xr.Dataset, curve: Curve, k: object) -> list[Curve]:
    """Return the curve once, or once for each norm."""
    named = replace(curve, label=curve.label.format(k=k))
    if "norm" not in data.get(curve.name, xr.DataArray()).dims:
        return [named]
    return [
        replace(named, label=f"{named.label}, {norm}", look=replace(curve.look, line=line), at={"norm": norm})
        for norm, line in zip(data["norm"].values, _NORM_LINES)
    ]


def _list_rows(data: xr.Dataset, name: str) -> list[PromptValues]:
    """Return the quantity once, or once for each norm."""
    if name not in data:
        return []
    label, weights = _SETTLED[name], token_weights(data, name)
    if "norm" not in data[name].dims:
        return [PromptValues(label, data[name], weights)]
    return [PromptValues(f"{label},\n{norm}", data[name].sel(norm=norm), weights) for norm in data["norm"].values]


FIGURE: Final = FigureKind(
    "lens", "Logit lens", tuple(curve.name for _, curves in _PANELS.values() for curve in curves), _make_drawing
)
