"""Declaration of the residual measure; its code is ``measures.residual``."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration

PARTS: Final = {"attn": "attention contribution", "mlp": "MLP contribution", "block": "block contribution"}
_SIZES: Final = ("norm_resid", *(f"norm_{part}" for part in PARTS))
_SYMBOL = {"resid": "h_b", "attn": "a_l", "mlp": "m_l", "block": "c_l"}
_REDUCED = {"": "mean", "_max": "maximum", "_rest": "mean without position 0"}
_SOURCE = "csordas2025, residual stream"
_label = partial(Label, source=f"{_SOURCE}; hu2025, residual cosine")
_largest = partial(Label, "prompt boundary", source=_SOURCE)


@dataclass(frozen=True)
class ResidualOptions:
    """Options of the residual measure. They only add run-level means as published; a prompt's own values are right.

    Args:
        mean_norms: "tokens" = nothing is added; "last_prompt" adds ``published_norm_…``, the last prompt's sum over
            the tokens of all prompts (a fault of csordas2025's published code).
        mean_contributions: "tokens" = nothing is added; "width" adds ``published_ratio_…`` and ``published_cos_…``,
            sums over tokens divided by the width of the stream instead of the tokens (a fault of hu2025's
            published code).
    """

    mean_norms: Literal["tokens", "last_prompt"] = "tokens"
    mean_contributions: Literal["tokens", "width"] = "tokens"


def _norms(part: str, what: str, dims: str) -> dict[str, Label]:
    return {
        f"norm_{part}{suffix}": _label(dims, f"norm of the {what} ({how} over tokens)", formula=f"‖{_SYMBOL[part]}‖₂")
        for suffix, how in _REDUCED.items()
    }


def _part(part: str, what: str) -> dict[str, Label]:
    symbol, stream = _SYMBOL[part], "{stream=(h_l + a_l)}" if part == "mlp" else "h_l"
    ratio = partial(_label, "prompt block", formula=f"‖{symbol}‖₂ / max(‖{stream}‖₂, 1e-6)")
    return {
        **_norms(part, what, "prompt block"),
        **{f"ratio_{part}{end}": ratio(f"relative {what} ({_REDUCED[end]} over tokens)") for end in ("", "_max")},
        f"cos_{part}": _label(
            "prompt block",
            f"cosine of the {what} with the residual stream (mean over tokens)",
            formula=f"cos({symbol}, {stream})",
            direction="0 = new direction, negative = erasure, positive = strengthening",
        ),
    }


_STREAM = _norms("resid", "residual stream", "prompt boundary")
_PARTS = {name: label for part, what in PARTS.items() for name, label in _part(part, what).items()}


_BY_STREAM = {
    "norm_stream": Label(
        "prompt boundary stream",
        "norm of each of several streams (mean over tokens)",
        formula="‖h_b,s‖₂, stream s",
        source="own",
        optional=True,
    ),
    "norm_stream_block": Label(
        "prompt block stream",
        "norm of what a block adds to each stream (mean over tokens)",
        formula="‖c_l,s‖₂, c_l,s = h_{l+1},s − h_l,s; NaN where blocks do not only add",
        source="own",
        optional=True,
    ),
    "cos_stream_block": Label(
        "prompt block stream",
        "cosine of what a block adds to each stream with that stream (mean over tokens)",
        formula="cos(c_l,s, h_l,s)",
        source="own",
        direction="0 = new direction, negative = erasure, positive = strengthening",
        optional=True,
    ),
}
"""Of models with several residual streams."""


def _published(kind: str, parts: Iterable[str], over: str, paper: str) -> dict[str, Label]:
    """Means over tokens as a paper's code has them."""
    means = {name: {**_STREAM, **_PARTS}[name] for name in (f"{kind}_{part}" for part in parts)}
    return {
        f"published_{name}": Label(
            mean.dims.removeprefix("prompt "),
            mean.long_name.replace("mean over tokens", "mean as published"),
            formula=f"Σ {mean.formula} over {over}",
            source=f"{paper}, published code",
            optional=True,
        )
        for name, mean in means.items()
    }


DECLARATION: Final = Declaration(
    "residual",
    "Norms, ratios and cosines of contributions, from one plain forward.",
    ResidualOptions,
    {
        **_STREAM,
        "largest": _largest("largest activation", formula="max over tokens and channels of |h_b|"),
        "largest_token": _largest("token of the largest activation", formula="argmax |h_b|"),
        "largest_channel": _largest("channel of the largest activation", formula="argmax |h_b|"),
        "largest_ratio": _largest("largest activation over the median", formula="max |h_b| / median |h_b|"),
        **_PARTS,
        "cos_neighbour": Label(
            "prompt block",
            "cosine of neighbouring boundaries",
            formula="cos(h_l, h_{l+1})",
            source=f"{_SOURCE}; 1 minus it is ShortGPT's Block Influence",
        ),
        "fixed_point": Label(
            "prompt block",
            "fixed-point residual of a looped model (mean over tokens)",
            formula="‖h^r_{j+1} − h^{r−1}_{j+1}‖₂ / ‖h^{r−1}_{j+1}‖₂, loop r, block j of the loop",
            source="own",
            direction="0 = the loop has reached a fixed point",
            optional=True,
        ),
        **_BY_STREAM,
        "angular": Label(
            "prompt tokens boundary distance",
            "angular distance between boundaries",
            formula="arccos(cos(h_b, h_{b+n}))/π",
            source="Gromov et al. 2024, angular distance",
            direction="0 = same direction, 0.5 = orthogonal, 1 = opposite",
        ),
        **_published(
            "norm", ("resid", "attn", "mlp"), "the last prompt's tokens / tokens of all prompts", "csordas2025"
        ),
        **_published("ratio", PARTS, "all tokens / (prompts · d_model)", "hu2025"),
        **_published("cos", PARTS, "all tokens / (prompts · d_model)", "hu2025"),
    },
    order=10,
    synonyms=("residual_stream", "norms", "norm"),
    panels={
        "norms": _SIZES,
        "norms_rest": tuple(f"{name}_rest" for name in _SIZES),
        "norms_max": tuple(f"{name}_max" for name in _SIZES),
        "largest": ("largest",),
        "largest_ratio": ("largest_ratio",),
        "ratios": ("ratio_attn", "ratio_mlp", "ratio_block"),
        "cosines": ("cos_attn", "cos_mlp", "cos_block"),
        "neighbour": ("cos_neighbour",),
    },
    question="how large is each contribution, and which way does it point?",
    rows="the plain forward",
    needs="boundaries",
)
