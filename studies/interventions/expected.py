"""What was expected of each intervention, as bounds. Written before anything here was measured on either model.

An expectation *holds* where the whole 95 % interval of its quantity lies inside the bound, *does not hold* where it
lies outside, and *cannot be decided* otherwise. Intervals resample prompts. No prompts are added where an interval
crosses a bound; their numbers stand here too.

What was known before. Of parallel neighbours: two small models trained here, in which pairs of the second half cost
0.18 and 0.05 times a removed block (``docs/experiments/removals.md``). Of SmolLM2: block 11 writes 22,549 at the
first token, the last two blocks take most of it away, and no other contribution has a number above 1000. Of Gemma
3: at the first token the stream grows over blocks 3 to 8 and 11 to some 100,000, by contributions that are each
above 6000 where those at other tokens are not, but for some of the last two blocks. Sizes of contributions alone
were looked at, to choose the bounds of the intervention; no prediction under it was.

Why the bounds are as they are. A norm divides by the size of the stream, so that a massive number decides the
direction of the normed stream as long as it is many times the rest: a tenth of it does the same, and clamping is
expected to change little. Left out, it gives the first token another direction, which later tokens attend to: Sun
et al. 2024 saw models collapse where such activations were set to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from studies.real_model.models import ModelKey

INFINITE: Final = float("inf")
LETTERS: Final = 160
"""Of each window of WikiText-2, as the study of the papers' claims has it for removals."""
PAIR_PROMPTS: Final[Mapping[ModelKey, int]] = {"smollm2": 12, "gemma3": 6}
MASSIVE_PROMPTS: Final[Mapping[ModelKey, int]] = {"smollm2": 8, "gemma3": 4}
WRITE_BOUND: Final[Mapping[ModelKey, float]] = {"smollm2": 1000.0, "gemma3": 6000.0}
"""Above it a number of a contribution is clamped, or left out."""

Bound = tuple[float, float]


@dataclass(frozen=True)
class Expectation:
    """A quantity and the bound that it was expected to lie in.

    Args:
        key: the function of ``quantities`` that computes it.
        study: ``pairs`` or ``massive``: what is stored under that name.
        text: what is expected, as a sentence.
        quantity: the number, in words.
        bounds: model → the least and the largest value, both included; a model without one is not judged.
    """

    key: str
    study: str
    text: str
    quantity: str
    bounds: Mapping[ModelKey, Bound]


def at_most(smollm2: float, gemma3: float | None = None) -> Mapping[ModelKey, Bound]:
    """Return bounds from above; of Gemma 3 the same unless another is named."""
    return {"smollm2": (-INFINITE, smollm2), "gemma3": (-INFINITE, smollm2 if gemma3 is None else gemma3)}


def at_least(smollm2: float, gemma3: float | None = None) -> Mapping[ModelKey, Bound]:
    """Return bounds from below; of Gemma 3 the same unless another is named."""
    return {"smollm2": (smollm2, INFINITE), "gemma3": (smollm2 if gemma3 is None else gemma3, INFINITE)}


def within(low: float, high: float) -> Mapping[ModelKey, Bound]:
    """Return one bound from both sides for both models."""
    return {"smollm2": (low, high), "gemma3": (low, high)}


EXPECTATIONS: Final = (
    Expectation(
        "parallel_against_dropping",
        "pairs",
        "In the second half two neighbours in parallel cost less than half of losing one of them.",
        "added loss of pairs of the second half in parallel, over the mean of losing one of the two",
        at_most(0.5),
    ),
    Expectation(
        "parallel_against_swapping",
        "pairs",
        "In the second half neighbours in parallel cost less than neighbours exchanged.",
        "added loss of pairs of the second half in parallel, over the same pairs swapped",
        at_most(0.75),
    ),
    Expectation(
        "parallel_late_against_early",
        "pairs",
        "Pairs of the second half need less of each other than pairs of the first, without block 0.",
        "added loss of pairs in parallel, second half over first half",
        at_most(0.75),
    ),
    Expectation(
        "parallel_of_the_writer",
        "pairs",
        "The pairs with block 11, which writes the massive activation, cost several times the median pair.",
        "mean added loss of pairs 10+11 and 11+12 in parallel, over the median pair",
        {"smollm2": (3.0, INFINITE)},
    ),
    Expectation(
        "parallel_untrained",
        "pairs",
        "An untrained model loses next to nothing.",
        "added loss of pairs of the second half in parallel, untrained model, nats a token",
        within(-0.05, 0.05),
    ),
    Expectation(
        "largest_clamped",
        "massive",
        "Clamped contributions leave a part of the massive activation.",
        "largest number of the stream at any boundary, clamped over as it is",
        at_most(0.2, 0.6),
    ),
    Expectation(
        "largest_left_out",
        "massive",
        "Left-out numbers leave less of it.",
        "largest number of the stream at any boundary, left out over as it is",
        at_most(0.1, 0.25),
    ),
    Expectation(
        "loss_clamped",
        "massive",
        "Clamping hardly costs anything: the norm sees the direction, which stays.",
        "added loss of the clamped model, nats a token",
        within(-0.2, 0.2),
    ),
    Expectation(
        "loss_left_out",
        "massive",
        "Leaving the massive activation out costs much.",
        "added loss of the model without it, nats a token",
        at_least(0.5),
    ),
    Expectation(
        "loss_against_the_writer",
        "massive",
        "Most of what block 11 costs to lose is its massive activation.",
        "added loss of the model without it, over the added loss of removing block 11 from the model as it is",
        {"smollm2": (0.5, INFINITE)},
    ),
    Expectation(
        "writer_left_over",
        "massive",
        "Without the massive activation block 11 is a block like others.",
        "added loss of removing block 11, without the massive activation over as it is",
        {"smollm2": (-INFINITE, 0.25)},
    ),
    Expectation(
        "norm_of_the_rest",
        "massive",
        "The norms of the other tokens stay as they are.",
        "norm of the stream in the middle of the depth, first token left out, left out over as it is",
        within(0.8, 1.25),
    ),
    Expectation(
        "profile_clamped",
        "massive",
        "Clamped, blocks are as expensive to remove as before.",
        "rank correlation of the cost of removing each block, clamped and as it is",
        within(0.8, 1.0),
    ),
    Expectation(
        "profile_left_out",
        "massive",
        "Without the massive activation the order of the blocks by cost is still similar.",
        "rank correlation of the cost of removing each block, left out and as it is",
        within(0.5, 1.0),
    ),
    Expectation(
        "depth_clamped",
        "massive",
        "Clamping does not move the depth by a twentieth of the blocks.",
        "boundary from which half of the tokens keep their prediction, clamped less as it is, over the blocks",
        within(-0.05, 0.05),
    ),
    Expectation(
        "depth_left_out",
        "massive",
        "Without the massive activation the depth moves by less than a tenth of the blocks.",
        "boundary from which half of the tokens keep their prediction, left out less as it is, over the blocks",
        within(-0.1, 0.1),
    ),
)
"""In the order of the page."""
