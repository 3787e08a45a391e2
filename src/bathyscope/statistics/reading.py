"""One estimator on one set of prompts: what each prompt gives, and how a number is read off their mean."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.errors import OptionError, describe_value
from bathyscope.statistics.inputs import as_numbers, positive_weights, require_one_by_prompt, require_range
from bathyscope.statistics.reduce import weighted_mean


@dataclass(frozen=True)
class Reading:
    """One estimator on one run: what each prompt gives, and how a number is read off the prompts' mean.

    Raises an OptionError where numbers of prompts differ, a weight is not positive, limits are no range, or ``locate``
    or ``whole`` cannot be called.

    Example:
        >>> from bathyscope.extend.statistics import Reading
        >>> largest = Reading(np.array([[1.0, 5.0, 2.0], [2.0, 4.0, 9.0]]), np.ones(2), lambda mean: mean.argmax(-1))
        >>> int(largest.estimate())
        2
    """

    values: FloatArray
    """``[P, ...]``, a curve or a number for each prompt; a prompt that is NaN throughout has no value."""
    weights: FloatArray
    """``[P]``, positive: token counts, or ones."""
    locate: Callable[[FloatArray], FloatArray]
    """Mean values ``[..., *values.shape[1:]]`` to estimates ``[...]``; NaN where an estimate does not exist."""
    limits: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest estimate there can be."""
    whole: Callable[[FloatArray], FloatArray] | None = None
    """For a whole-numbered estimator: its estimate, from the real-valued one that ``locate`` gives."""
    cluster: IntArray | None = None
    """``[P]``, prompts of one number are drawn as one, those of other readings too; None where each stands alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_numbers(self.values, "values", "an array [prompts, ...]"))
        object.__setattr__(self, "weights", as_numbers(self.weights, "weights", "one for each prompt"))
        if self.values.ndim == 0 or self.weights.shape != self.values.shape[:1]:
            raise OptionError(
                f"Values of shape {list(self.values.shape)} and weights of shape {list(self.weights.shape)} do "
                "not fit: they are [prompts, ...] and [prompts]."
            )
        positive_weights(self.weights, len(self.weights))
        if self.cluster is not None:
            require_one_by_prompt(self.cluster, "cluster", len(self.weights))
        require_range(self.limits)
        if not callable(self.locate):
            raise OptionError(
                f"locate={describe_value(self.locate)} cannot be called; give a function from mean values to "
                "estimates, such as lambda means: means.argmax(-1)."
            )
        if self.whole is not None and not callable(self.whole):
            raise OptionError(
                f"whole={describe_value(self.whole)} cannot be called; give a function from what locate gives to whole "
                "numbers, or None."
            )

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """``[P]``: which prompts have any value."""
        return np.asarray(~np.isnan(self.values.reshape(len(self.values), -1)).all(axis=1))

    def take(self, prompts: ArrayLike) -> Self:
        """The same estimator on some of the prompts, in the order of the given indices (or a mask)."""
        chosen = np.asarray(prompts)
        cluster = None if self.cluster is None else self.cluster[chosen]
        return replace(self, values=self.values[chosen], weights=self.weights[chosen], cluster=cluster)

    def estimate(self, counts: ArrayLike | None = None) -> FloatArray:
        """What ``locate`` gives: ``[]``, or ``[R]`` from how often each resample draws each prompt ``[R, P]``."""
        weights = self.weights if counts is None else np.asarray(counts, dtype=np.float64) * self.weights
        return np.asarray(self.locate(weighted_mean(self.values, weights)))


def only_entry(mean: FloatArray) -> FloatArray:
    """What is read off means ``[..., 1]`` of one number a prompt: the mean itself."""
    return np.asarray(mean[..., 0])
