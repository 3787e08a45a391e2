"""Declaration of the logit lens; its code is ``measures.lens``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Distinct, Range

_BOTH = "csordas2025, logit lens; hu2025, logit lens"
_CSORDAS = "csordas2025, logit lens"
_LAD = "lad2024, logit lens"
_DEEP = "deep-thinking ratio"
_by_boundary = partial(Label, "[norm] prompt boundary")
_reached = partial(_by_boundary, direction="0 = the final prediction is reached")
_closer = partial(_by_boundary, direction="higher = closer to the final prediction")
_by_prompt = partial(Label, "[norm] prompt", direction="higher = the prediction is made later")
_by_exit = partial(Label, "prompt exit_rule threshold", optional=True, source="own")
_advantage = partial(Label, "", optional=True, source="own")
EXIT_RULES: Final = ("gate", "confidence")
EXIT_THRESHOLDS: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.1)
"""What a rule must reach for a token to leave; the last lets none leave before the end."""


@dataclass(frozen=True)
class LensOptions:
    """Options of the logit lens.

    Args:
        k: tokens in the top-k overlap.
        norm: "recompute" = the final norm computed on h_b; "frozen" = divided by the final boundary's scale.
        bias: use the final norm's bias in the frozen lens.
        top_p: probability mass of the top set that KL is split by.
        positions: what means are over: "all" = every token of a prompt (the cross-entropy: every one that has a next
            token); "inner" = all but the first and the last; "answer" = those that predict the answer's tokens.
    """

    k: Annotated[int, Range(1)] = 5
    norm: Annotated[tuple[Literal["recompute", "frozen"], ...], Distinct()] = ("recompute",)
    bias: bool = True
    top_p: Annotated[float, Range(1e-6, 1.0)] = 0.9
    positions: Literal["all", "inner", "answer"] = "all"


DECLARATION: Final = Declaration(
    "lens",
    "Readout at every boundary, from one plain forward.",
    LensOptions,
    {
        "kl_lens_final": _reached("KL of the lens from the final distribution", "nats", "KL(p_b ‖ p_L)", _BOTH),
        "kl_final_lens": _reached("KL of the final distribution from the lens", "nats", "KL(p_L ‖ p_b)", "logit lens"),
        "jsd": _reached("Jensen–Shannon divergence of lens and final distribution", "bits", "JSD₂(p_b, p_L)", _DEEP),
        "entropy": _by_boundary("entropy of the lens", "bits", "−Σ p_b log₂ p_b", _LAD),
        "overlap": _closer(
            "top-k overlap of lens and final distribution", "1", "|top_k(p_b) ∩ top_k(p_L)| / k, k = {k=5}", _BOTH
        ),
        "top1_agreement": _closer(
            "top-1 agreement of lens and final distribution", "1", "mean of [argmax p_b = argmax p_L]", _CSORDAS
        ),
        "top1_kept": _by_boundary(
            "tokens that have, and keep, their final top-1 token",
            "1",
            "mean of [argmax p_j = argmax p_L for all j ≥ b]",
            "Baldock et al. 2021, prediction depth",
            direction="higher = more predictions are made",
        ),
        "near_ties": _by_boundary(
            "tokens with another top-1 token than the final one, which leads by less than 0.1 at the end",
            "1",
            "mean of [argmax p_b ≠ argmax p_L and p_L(1st) − p_L(2nd) < 0.1]",
            "own",
            direction="lower = fewer predictions are undecided",
        ),
        "mrr": _closer("reciprocal rank of the final top-1 token", "1", "mean of 1/rank_b(argmax p_L)", "logit lens"),
        "cross_entropy": _by_boundary(
            "cross-entropy of the next token under the lens",
            "nats",
            "−log p_b(next token)",
            _LAD,
            direction="lower = better",
        ),
        "kl_top_p": _by_boundary(
            "part of KL(p_b ‖ p_L) in the final top-p set", "nats", "Σ over the final top-{p=0.9} set", _LAD
        ),
        "kl_tail": _by_boundary(
            "part of KL(p_b ‖ p_L) outside the final top-p set", "nats", "Σ outside the final top-{p=0.9} set", _LAD
        ),
        "settle_depth": _by_prompt(
            "settle depth of a token", "boundary", "mean over tokens of min{b : JSD₂(p_b, p_L) ≤ 0.5}", _DEEP
        ),
        "deep_thinking_ratio": _by_prompt(
            "share of tokens that settle late", "1", "mean over tokens of [settle depth ≥ ⌈0.85·L⌉]", _DEEP
        ),
        "prediction_depth": _by_prompt(
            "prediction depth of a token",
            "boundary",
            "mean over tokens of min{b : argmax p_j = argmax p_L for all j ≥ b}",
            "Baldock et al. 2021, prediction depth",
        ),
        "n_averaged": Label("prompt", "tokens that a prompt's means are over", "token", source=_BOTH),
        "n_averaged_cross_entropy": Label(
            "prompt", "tokens that a prompt's mean cross-entropy is over", "token", source=_LAD
        ),
        "hits": Label(
            "[norm] prompt boundary k",
            "final top-1 token among the lens's top k",
            formula="mean over tokens of [rank ≤ k]",
            source=_CSORDAS,
            direction="higher = closer to the final prediction",
        ),
        "gate_exit": Label(
            "prompt boundary",
            "probability that a learned exit gate ends a token",
            formula="mean over tokens of λ_r Π (1 − λ_j) over the reads j before r; the rest at the last boundary",
            source="own",
            optional=True,
        ),
        "exit_depth": _by_exit(
            "boundary where tokens leave under a rule", "boundary", "first read with score ≥ threshold"
        ),
        "exit_agreement": _by_exit(
            "leaving tokens whose likeliest token is the final one",
            formula="mean of [argmax p_exit = argmax p_L]",
            direction="higher = closer to the final prediction",
        ),
        "gate_advantage": _advantage(
            "agreement of the gate's exits over that of confident ones of equal mean depth",
            formula="mean over depths of exit_agreement(gate) − exit_agreement(confidence)",
            direction="above 0 = the gate chooses better",
        ),
        **interval("gate_advantage", _advantage, "its 95 % interval", "1", "bootstrap over prompts"),
    },
    order=20,
    synonyms=("logit_lens", "logitlens", "unembedding_lens", "early_decoding"),
    panels={
        "kl": ("kl_lens_final", "kl_final_lens"),
        "agreement": ("overlap", "top1_agreement"),
        "entropy": ("entropy",),
        "cross_entropy": ("cross_entropy",),
        "settling": ("settle_depth",),
        "deep_thinking": ("deep_thinking_ratio",),
        "gate": ("gate_exit",),
        "exits": ("exit_agreement", "exit_depth"),
    },
    question="what would the model predict at each boundary?",
    rows="the plain forward",
    needs="last boundary",
)
