"""By which bound each claim is judged on Gemma 3 270M. Written before any of these claims was measured on it.

The rule leaves no choice: every bound is that of SmolLM2, which was taken from the papers' statements before anything
was measured (``claims.py``). Bounds that are numbers of blocks keep their share of the depth: 0.75 of 30 blocks are
0.45 of 18. Fixed before looking, too, is on how many prompts each claim is measured (``jobs.py``); none is added where
an interval crosses its bound.

Not blind: a first look at four GSM8K prompts read cosine 7, KL 11 and overlap 13 of 18 blocks, all three outside of the
bounds that stood for SmolLM2. Neither the bounds nor the rule were made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from studies.real_model.claims import CLAIMS, INFINITE, Claim
from studies.real_model.models import GEMMA3, RealModel

BLOCKS: Final = 18
_IN_BLOCKS: Final = 0.75 * BLOCKS / 30

GEMMA3_BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "contribution_falls": (-INFINITE, 0.75),
    "contribution_ends": (1.25, INFINITE),
    "cosine_rises": (0.0, INFINITE),
    "phase_transition": (0.35, 0.75),
    "skip_future_halves": (-INFINITE, 0.5),
    "skip_all_halves": (-INFINITE, 1.0),
    "skip_output": (-INFINITE, 0.5),
    "skip_gap": (-INFINITE, 0.0),
    "lens_kl_late": (0.5, INFINITE),
    "lens_overlap_late": (-INFINITE, 0.2),
    "hops_mquake": (-_IN_BLOCKS, _IN_BLOCKS),
    "hops_two_hop": (-_IN_BLOCKS, _IN_BLOCKS),
    "steps_gsm8k": (-_IN_BLOCKS, _IN_BLOCKS),
    "erasure_operands": (-INFINITE, 0.5),
    "gradients_first_half": (0.5, INFINITE),
    "criterion_cosine": (0.5, 0.75),
    "criterion_kl": (0.7, 0.9),
    "criterion_overlap": (0.8, 0.95),
    "criteria_order": (0.0, INFINITE),
    "difficulty_cosine": (-0.1, 0.1),
    "difficulty_kl": (-0.1, 0.1),
    "difficulty_overlap": (-0.1, 0.1),
    "drop_middle": (0.72, INFINITE),
    "drop_first": (3.0, INFINITE),
    "drop_last": (1.0, INFINITE),
    "swap_milder": (-INFINITE, 1.0),
    "repeat_milder": (-INFINITE, 1.0),
    "accuracy_kept": (0.72, 1.1),
    "attention_local": (0.0, INFINITE),
    "subjoiners_early": (-INFINITE, 0.34),
    "wic_middle": (-INFINITE, 0.67),
    "prediction_neurons": (0.6, INFINITE),
    "suppression_later": (0.0, INFINITE),
    "entropy_falls": (0.5, INFINITE),
    "mlp_grows": (1.0, INFINITE),
    "answer_arrives": (0.5, INFINITE),
}
"""Key of a claim → smallest and largest value, both included."""


def claims_about(real: RealModel) -> tuple[Claim, ...]:
    """Return the claims with the bounds by which they are judged on a model."""
    if real is not GEMMA3:
        return CLAIMS
    bounds = [GEMMA3_BOUNDS[claim.key] for claim in CLAIMS]
    return tuple(replace(claim, low=low, high=high) for claim, (low, high) in zip(CLAIMS, bounds, strict=True))
