"""Which tokens t a ``future`` intervention is measured from."""

import random
from collections.abc import Sequence

from bathyscope.errors import OptionError

STEP, MARGIN, COUNT = 8, 4, 4
SHORTEST = STEP + MARGIN + 1


def sample_positions(lengths: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """Every eighth token, shuffled, the first four, for each prompt in order; empty where a prompt is too short.

    One generator runs through all prompts, as in the published code (csordas2025: seed 123).
    """
    generator = random.Random(seed)
    sampled: list[tuple[int, ...]] = []
    for length in lengths:
        # Drawn for all prompts before any shard is computed, so that positions do not depend on how work is cut.
        candidates = list(range(STEP, length - MARGIN, STEP))
        generator.shuffle(candidates)
        sampled.append(tuple(candidates[:COUNT]))
    return sampled


def check_positions(positions: Sequence[Sequence[int]], lengths: Sequence[int], measure: str) -> list[tuple[int, ...]]:
    """Positions given by the caller, one list per prompt; a single list is taken for every prompt.

    Raises:
        OptionError: wrong number of lists, or a position that is not inside its prompt.
    """
    if len(positions) == 1:
        positions = [positions[0]] * len(lengths)
    if len(positions) != len(lengths):
        raise OptionError(
            f"{measure}: positions has {len(positions)} lists for {len(lengths)} prompts; give one list per prompt, or "
            "a single one for all."
        )
    for number, (prompt_positions, length) in enumerate(zip(positions, lengths)):
        for t in prompt_positions:
            if not 1 <= t < length:
                raise OptionError(
                    f"{measure}: position {t} of prompt {number} is out of range; "
                    f"this prompt has {length} tokens, allowed: 1 to {length - 1}."
                )
    return [tuple(int(t) for t in prompt_positions) for prompt_positions in positions]
