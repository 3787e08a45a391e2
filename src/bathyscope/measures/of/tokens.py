"""Declaration of tokens, what other measures know of single tokens; its code is ``measures.tokens``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range

_LENS = "logit lens"
_DROP = "lad2024, layer interventions"
_RESIDUAL = "csordas2025, residual stream"
_at_boundary = partial(Label, "prompt boundary token", source=_LENS)
_top = partial(Label, "prompt boundary top token", source=_LENS)
_norm = partial(Label, source=_RESIDUAL, optional=True)
_jacobian = partial(Label, "prompt boundary token", source="jlens 2026, Jacobian lens", optional=True)


@dataclass(frozen=True)
class TokensOptions:
    """Options of tokens.

    Args:
        prompts: how many prompts, the first ones; 0 = none.
        length: how many tokens of each, the first ones; 0 = none.
    """

    prompts: Annotated[int, Range(0)] = 16
    length: Annotated[int, Range(0)] = 256


DECLARATION: Final = Declaration(
    "tokens",
    "What lens, drop, residual and jacobian_lens know of single tokens of the first prompts.",
    TokensOptions,
    {
        "top_id": _top("likeliest tokens of the lens, the likeliest first", formula="argmax₅ p_b"),
        "top_probability": _top("probability of the lens's likeliest tokens", formula="p_b(argmax₅ p_b)"),
        "kl_final_lens": _at_boundary("KL of the final distribution from the lens", "nats", "KL(p_L ‖ p_b)"),
        "entropy": _at_boundary("entropy of the lens", "bits", "−Σ p_b log₂ p_b"),
        "next_probability": _at_boundary("probability of the next token under the lens", "1", "p_b(next token)"),
        "settle_depth": Label(
            "prompt token", "settle depth", "boundary", "min{b : JSD₂(p_b, p_L) ≤ 0.5}", "deep-thinking ratio"
        ),
        "prediction_depth": Label(
            "prompt token",
            "prediction depth",
            "boundary",
            "min{b : argmax p_j = argmax p_L for all j ≥ b}",
            "Baldock et al. 2021, prediction depth",
        ),
        "added_loss": Label(
            "prompt dropped token",
            "loss added without one block",
            "nats",
            "−log p̄(next token) + log p(next token)",
            _DROP,
            optional=True,
        ),
        "added_kl": Label(
            "prompt dropped token",
            "KL of the prediction without one block from the normal one",
            "nats",
            "KL(p ‖ p̄)",
            _DROP,
            optional=True,
        ),
        "norm_resid": _norm("prompt boundary token", "norm of the residual stream", "1", "‖h_b‖₂"),
        "norm_attn": _norm("prompt block token", "norm of the attention contribution", "1", "‖a_l‖₂"),
        "norm_mlp": _norm("prompt block token", "norm of the MLP contribution", "1", "‖m_l‖₂"),
        "norm_block": _norm("prompt block token", "norm of the block contribution", "1", "‖c_l‖₂"),
        "jacobian_id": _jacobian(
            "likeliest token of the Jacobian lens; −1 where it does not read",
            formula="argmax p_b, p_b = readout(J_b h_b)",
        ),
        "jacobian_probability": _jacobian("probability of the likeliest token of the Jacobian lens", "1", "max p_b"),
        "piece": Label("id", "a token of top_id or jacobian_id as text", optional=True, source="tokenizer"),
    },
    requires=("lens",),
    order=910,
    question="token by token: what is read at each boundary, and what each block adds?",
    rows="none of its own",
)
