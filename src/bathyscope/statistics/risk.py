"""Thresholds whose risk is bounded: learn then test.

Candidates are ordered, the safest first, on some prompts; on others each is tested against "its mean loss is above the
bound", and the first that cannot be refuted ends the sequence. So the chance that any threshold that is given out
breaks the bound is at most the error, whatever losses are like, as long as prompts are independent draws.
Source: Angelopoulos et al. 2021 (fixed sequence testing); Waudby-Smith and Ramdas 2024 (betting).
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

_BOLDEST: Final = 0.9
"""Share of everything that a bet may stake."""


def betting_p_value(losses: ArrayLike, bound: float) -> float:
    """Return p of a mean loss of ``bound`` or more: one over the most money that betting against it ever makes.

    Each prompt's stake is set by the prompts before it alone. Valid for any number of prompts.

    Args:
        losses: [prompts], each between 0 and 1.
        bound: between 0 and 1.
    """
    money = most = 0.0
    mean, spread = bound, 0.25
    for number, loss in enumerate(np.asarray(losses, dtype=np.float64).tolist(), start=1):
        gap = bound - mean
        stake = min(max(gap / (spread + gap**2), 0.0), _BOLDEST / (1 - bound)) if number > 1 else 0.0
        money += math.log1p(-stake * (loss - bound))
        most = max(most, money)
        before, mean = mean, mean + (loss - mean) / (number + 1)
        spread += ((loss - before) * (loss - mean) - spread) / (number + 1)
    return math.exp(-most)


def passing(losses: ArrayLike, bound: float, error: float) -> int:
    """How many candidates, from the first on, keep the bound.

    Args:
        losses: [candidates, prompts], the safest candidate first.
        error: the chance that one of those that pass breaks it.
    """
    losses_by_candidate = np.asarray(losses, dtype=np.float64)
    for number, candidate_losses in enumerate(losses_by_candidate):
        if betting_p_value(candidate_losses, bound) > error:
            return number
    return len(losses_by_candidate)


def fewest_prompts(bound: float, error: float) -> int:
    """With fewer prompts nothing passes, even where no token changes."""
    number = 1
    while betting_p_value(np.zeros(number), bound) > error:
        number += 1
    return number
