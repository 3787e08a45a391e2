"""Mean, variance, skew and kurtosis of values that come in pieces.

Each piece gives sums of powers of the deviations from its own mean, and pieces are merged by the update formulas of
Pébay (2008). Nothing is ever the difference of two large sums, so that no digits are lost where the mean is far
from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bathyscope.core.arrays import FloatArray


@dataclass(frozen=True)
class Moments:
    """Moments of ``count`` values for each entry of an array; population moments, not sample estimates.

    m2, m3, m4 are sums of the second, third and fourth powers of the deviations from the mean.
    """

    count: int
    mean: FloatArray
    m2: FloatArray
    m3: FloatArray
    m4: FloatArray

    @classmethod
    def of(cls, values: Any) -> Moments:
        """Moments along the last axis of a float64 array, of NumPy or on any device of torch."""
        mean = values.mean(-1)
        deviation = values - mean[..., None]
        square = deviation * deviation
        sums = (square.sum(-1), (square * deviation).sum(-1), (square * square).sum(-1))
        return cls(int(values.shape[-1]), _array(mean), *map(_array, sums))

    def merged(self, other: Moments) -> Moments:
        """Moments of both sets of values together."""
        n, m = self.count, other.count
        total = n + m
        gap = other.mean - self.mean
        step = gap / total
        m2 = self.m2 + other.m2 + gap * step * n * m
        m3 = self.m3 + other.m3 + gap * step**2 * n * m * (n - m) + 3 * step * (n * other.m2 - m * self.m2)
        m4 = (
            self.m4
            + other.m4
            + gap * step**3 * n * m * (n * n - n * m + m * m)
            + 6 * step**2 * (n * n * other.m2 + m * m * self.m2)
            + 4 * step * (n * other.m3 - m * self.m3)
        )
        return Moments(total, self.mean + step * m, m2, m3, m4)

    @property
    def variance(self) -> FloatArray:
        """Mean squared deviation."""
        return self.m2 / self.count

    @property
    def skew(self) -> FloatArray:
        """Third standardised moment; NaN where all values are equal."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.m3 / self.count / self.variance**1.5)

    @property
    def kurtosis(self) -> FloatArray:
        """Fourth standardised moment, 3 for a normal distribution; NaN where all values are equal."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.m4 / self.count / self.variance**2)


def _array(values: Any) -> FloatArray:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, dtype=np.float64)
