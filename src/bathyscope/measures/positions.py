"""Which tokens t a ``future`` intervention is measured from."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import OptionError, warn

STEP, MARGIN, COUNT = 8, 4, 4
SHORTEST = STEP + MARGIN + 1


def sample_positions(lengths: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """Every eighth token, shuffled, the first four, for each prompt in order; empty where a prompt is too short.

    One generator runs through all prompts, as in the published code (csordas2025: seed 123).
    """
    generator = random.Random(seed)
    found: list[tuple[int, ...]] = []
    for length in lengths:
        candidates = list(range(STEP, length - MARGIN, STEP))
        generator.shuffle(candidates)
        found.append(tuple(candidates[:COUNT]))
    return found


def chosen_positions(
    given: Sequence[Sequence[int]] | None, lengths: Sequence[int], seed: int, measure: str
) -> list[tuple[int, ...]]:
    """The caller's positions, checked, or sampled ones, with a warning that counts the prompts that have none.

    Raises:
        OptionError: see ``check_positions``.
    """
    if given is not None:
        return check_positions(given, lengths, measure)
    positions = sample_positions(lengths, seed)
    without = sum(not own for own in positions)
    if without:
        warn(
            f"{measure}: {without} of {len(lengths)} prompts are too short for a sampled position (shorter than "
            f"{SHORTEST} tokens); their effects on future tokens are missing. Longer prompts, or positions, "
            "would give them.",
        )
    return positions


def check_positions(positions: Sequence[Sequence[int]], lengths: Sequence[int], measure: str) -> list[tuple[int, ...]]:
    """Positions given by the caller, one list per prompt.

    Raises:
        OptionError: wrong number of lists, or a position that is not inside its prompt.
    """
    if len(positions) != len(lengths):
        raise OptionError(
            f"{measure}: positions has {len(positions)} lists for {len(lengths)} prompts; give one list per prompt."
        )
    for number, (given, length) in enumerate(zip(positions, lengths)):
        for t in given:
            if not 1 <= t < length:
                raise OptionError(
                    f"{measure}: position {t} of prompt {number} is out of range; "
                    f"this prompt has {length} tokens, allowed: 1 to {length - 1}."
                )
    return [tuple(int(t) for t in given) for given in positions]


def padded_positions(positions: Sequence[Sequence[int]], samples: int) -> NDArray[np.int64]:
    """The tokens t that were used, [prompt, sample], −1 where a prompt has fewer."""
    values = np.full((len(positions), samples), -1, dtype=np.int64)
    for prompt, starts in enumerate(positions):
        values[prompt, : len(starts)] = starts
    return values
