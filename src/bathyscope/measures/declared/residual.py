"""Declaration of the residual measure; its code is ``measures.residual``."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration

PARTS: Final = {"attn": "attention contribution", "mlp": "MLP contribution", "block": "block contribution"}
_SYMBOL = {"resid": "h_b", "attn": "a_l", "mlp": "m_l", "block": "c_l"}
_REDUCED = {"": "mean", "_max": "maximum", "_rest": "mean without position 0"}
_SOURCE = "csordas2025, residual stream"
_label = partial(Label, source=f"{_SOURCE}; hu2025, residual cosine")


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


def _boundary() -> Iterator[tuple[str, Label]]:
    for suffix, how in _REDUCED.items():
        text = f"norm of the residual stream ({how} over tokens)"
        yield f"norm_resid{suffix}", _label("prompt boundary", text, formula="‖h_b‖₂")
    for name, text, formula in (
        ("largest", "largest activation", "max over tokens and channels of |h_b|"),
        ("largest_token", "token of the largest activation", "argmax |h_b|"),
        ("largest_channel", "channel of the largest activation", "argmax |h_b|"),
        ("largest_ratio", "largest activation over the median", "max |h_b| / median |h_b|"),
    ):
        yield name, Label("prompt boundary", text, formula=formula, source=_SOURCE)


def _part(part: str, what: str) -> Iterator[tuple[str, Label]]:
    symbol, stream = _SYMBOL[part], "{stream=(h_l + a_l)}" if part == "mlp" else "h_l"
    block = partial(_label, "prompt block")
    for suffix, how in _REDUCED.items():
        yield f"norm_{part}{suffix}", block(f"norm of the {what} ({how} over tokens)", formula=f"‖{symbol}‖₂")
    for suffix in ("", "_max"):
        formula = f"‖{symbol}‖₂ / max(‖{stream}‖₂, 1e-6)"
        yield f"ratio_{part}{suffix}", block(f"relative {what} ({_REDUCED[suffix]} over tokens)", formula=formula)
    yield (
        f"cos_{part}",
        block(
            f"cosine of the {what} with the residual stream (mean over tokens)",
            formula=f"cos({symbol}, {stream})",
            direction="0 = new direction, negative = erasure, positive = strengthening",
        ),
    )


def _published() -> Iterator[tuple[str, Label]]:
    for part, what in {"resid": "residual stream", "attn": PARTS["attn"], "mlp": PARTS["mlp"]}.items():
        yield (
            f"published_norm_{part}",
            Label(
                "boundary" if part == "resid" else "block",
                f"norm of the {what} (mean as published)",
                formula=f"Σ ‖{_SYMBOL[part]}‖₂ over the last prompt's tokens / tokens of all prompts",
                source="csordas2025, published code",
                optional=True,
            ),
        )
    for kind in ("ratio", "cos"):
        for part, what in PARTS.items():
            mean = dict(_part(part, what))[f"{kind}_{part}"]
            yield (
                f"published_{kind}_{part}",
                Label(
                    "block",
                    f"{mean.long_name.removesuffix(' (mean over tokens)')} (mean as published)",
                    formula=f"Σ {mean.formula} over all tokens / (prompts · d_model)",
                    source="hu2025, published code",
                    optional=True,
                ),
            )


DECLARATION: Final = Declaration(
    "residual",
    "Norms, ratios and cosines of contributions, from one plain forward.",
    ResidualOptions,
    {
        **dict(_boundary()),
        **{name: label for part, what in PARTS.items() for name, label in _part(part, what)},
        "cos_neighbour": Label(
            "prompt block",
            "cosine of neighbouring boundaries",
            formula="cos(h_l, h_{l+1})",
            source=f"{_SOURCE}; 1 minus it is ShortGPT's Block Influence",
        ),
        "angular": Label(
            "prompt tokens boundary distance",
            "angular distance between boundaries",
            formula="arccos(cos(h_b, h_{b+n}))/π",
            source="Gromov et al. 2024, angular distance",
            direction="0 = same direction, 0.5 = orthogonal, 1 = opposite",
        ),
        **dict(_published()),
    },
)
