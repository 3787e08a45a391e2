"""Checks of what an estimate is computed from: one number a prompt, weights, clusters, limits."""

from collections.abc import Sized

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError, describe_value


def as_numbers(values: ArrayLike, name: str, what: str) -> FloatArray:
    """Return values as an array of numbers, of any shape; ``what`` they are is what a message asks for.

    Raises:
        OptionError: something else than numbers.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name}={describe_value(values)} are no numbers; give {what}.") from error


def numbers_by_prompt(values: ArrayLike, name: str, prompts: int | None = None) -> FloatArray:
    """Return one number for each prompt.

    Args:
        values: [prompts].
        name: of the argument.
        prompts: how many there must be; None = any number.

    Raises:
        OptionError: no numbers, another shape, or another number of them.
    """
    numbers = as_numbers(values, name, "one for each prompt")
    if numbers.ndim != 1:
        raise OptionError(f"{name} of shape {list(numbers.shape)} are not one number for each prompt; give [prompts].")
    require_one_by_prompt(numbers, name, prompts)
    return numbers


def require_one_by_prompt(values: Sized, name: str, prompts: int | None) -> None:
    """Refuse values that are not as many as the prompts.

    Raises:
        OptionError: another number of them.
    """
    if prompts is not None and len(values) != prompts:
        raise OptionError(f"{name} has {len(values)} values for {prompts} prompts; give one for each prompt.")


def positive_weights(weights: ArrayLike | None, prompts: int) -> FloatArray:
    """Return the weight of each prompt, which is 1 by default.

    Raises:
        OptionError: another number of them, or one that is not above 0 and finite.
    """
    if weights is None:
        return np.ones(prompts)
    numbers = numbers_by_prompt(weights, "weights", prompts)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise OptionError("A weight is not positive; weights are token counts, or ones.")
    return numbers


def require_range(limits: tuple[float, float]) -> None:
    """Refuse limits that are no range.

    Raises:
        OptionError: with the limits.
    """
    low, high = limits
    if not low <= high:
        raise OptionError(f"limits={limits} are no range; give the smallest value first, such as (0.0, 1.0).")


def require_limits(limits: tuple[float, float], estimate: float) -> None:
    """Refuse limits that are no range, or that an estimate lies outside of; rounding is no reason.

    Raises:
        OptionError: with the estimate that is outside.
    """
    require_range(limits)
    low, high = limits
    rounding = 1e-9 * max(1.0, abs(estimate))
    if estimate < low - rounding or estimate > high + rounding:
        raise OptionError(
            f"limits={limits} do not hold the estimate {estimate:g}; give the smallest and the largest value there "
            "can be."
        )
