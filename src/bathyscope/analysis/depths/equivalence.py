"""Up to where a difference of depths counts as none: the bound of equivalence, in its unit and for each comparison."""

from __future__ import annotations

import math
from typing import Final

from bathyscope.analysis.depths.questions import ComparisonPlan, PlannedContrast
from bathyscope.analysis.options import Unit
from bathyscope.errors import OptionError

OF_A_QUESTION: Final = 0.05
"""Of the ratio, where a question of hu2025 is asked, whose answers are "the same ratio" and "no increase"."""


def equivalence_bounds(
    plan: ComparisonPlan, question: str | None, equivalence: float | None, unit: str
) -> list[float | None]:
    """For each comparison the largest difference of ratio that counts as none; None where no test is asked for."""
    if equivalence is None:
        return [None if question is None else OF_A_QUESTION] * len(plan.contrasts)
    bounds = [equivalence / (_blocks(comparison) if unit == "blocks" else 1) for comparison in plan.contrasts]
    if max(bounds) >= 1:
        raise _everything(equivalence, unit)
    return list(bounds)


def require_bound(equivalence: float | None, unit: str) -> None:
    """Refuse a bound that is none whatever the runs are.

    Raises:
        OptionError: with what is allowed.
    """
    if equivalence is None:
        return
    if not (equivalence > 0 and math.isfinite(equivalence)):
        raise OptionError(
            f"The bound of equivalence is {equivalence:g}; differences smaller than it count as none: give a number "
            "above 0."
        )
    if unit == "ratio" and equivalence >= 1:
        raise _everything(equivalence, unit)


def _everything(equivalence: float, unit: str) -> OptionError:
    return OptionError(
        f"equivalence={equivalence:g} (--equivalence) in {unit} holds every difference there can be; give less "
        f"than {'all blocks' if unit == 'blocks' else '1, or equivalence_unit=blocks (--equivalence-unit blocks)'}."
    )


def bound_text(equivalence: float | None, unit: Unit) -> str:
    """``0.05``, or ``1 block``."""
    if unit == "ratio" or equivalence is None:
        return f"{OF_A_QUESTION if equivalence is None else equivalence:g}"
    return f"{equivalence:g} {'block' if equivalence == 1 else 'blocks'}"


def _blocks(comparison: PlannedContrast) -> int:
    if comparison.blocks is not None:
        return comparison.blocks
    counts = sorted({side.n_blocks for side in comparison.sides})
    many = (
        f"the models have {' and '.join(map(str, counts))}"
        if comparison.is_difference
        else "a slope has none of its own"
    )
    raise OptionError(
        "equivalence_unit='blocks' (--equivalence-unit blocks) needs two models of equally many blocks, and in "
        f"{comparison.label!r} {many}. Give the bound as a ratio."
    )
