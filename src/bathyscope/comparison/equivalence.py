"""How small a difference must be to count as none, so that "no difference" can be found and not only be missed."""

from __future__ import annotations

from typing import Final, Literal

from bathyscope.comparison.questions import Asked, Plan
from bathyscope.errors import OptionError
from bathyscope.statistics.difference import check_bound

Unit = Literal["ratio", "blocks"]

OF_A_QUESTION: Final = 0.05
"""Of the ratio, where a question of hu2025 is asked, whose answers are "the same ratio" and "no increase"."""


def equivalence_bounds(plan: Plan, question: str | None, equivalence: float | None, unit: str) -> list[float | None]:
    """For each comparison the largest difference of ratio that counts as none; None where no test is asked for.

    Raises:
        OptionError: a bound that is not above 0 or that holds every difference there can be; an unknown unit; blocks
            for a slope, or for models of unequal numbers of blocks.
    """
    check_bound(equivalence)
    if equivalence is None:
        return [None if question is None else OF_A_QUESTION] * len(plan.asked)
    bounds = [equivalence / (_blocks(asked) if unit == "blocks" else 1) for asked in plan.asked]
    if max(bounds) >= 1:
        raise OptionError(
            f"equivalence={equivalence:g} (--equivalence) in {unit} holds every difference there can be; give less "
            f"than {'all blocks' if unit == 'blocks' else '1, or equivalence_unit=blocks (--equivalence-unit blocks)'}."
        )
    return list(bounds)


def bound_text(equivalence: float | None, unit: Unit) -> str:
    """``0.05``, or ``1 block``."""
    if unit == "ratio" or equivalence is None:
        return f"{OF_A_QUESTION if equivalence is None else equivalence:g}"
    return f"{equivalence:g} {'block' if equivalence == 1 else 'blocks'}"


def _blocks(asked: Asked) -> int:
    if asked.blocks is not None:
        return asked.blocks
    counts = sorted({side.n_blocks for side in asked.sides})
    many = f"the models have {' and '.join(map(str, counts))}" if asked.is_difference else "a slope has none of its own"
    raise OptionError(
        "equivalence_unit='blocks' (--equivalence-unit blocks) needs two models of equally many blocks, and in "
        f"{asked.label!r} {many}. Give the bound as a ratio."
    )
