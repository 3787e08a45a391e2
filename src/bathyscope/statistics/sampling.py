"""How intervals over prompts are made: one object for everything that has one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.bootstrap import Interval, mean_interval, resample_counts


@dataclass(frozen=True, eq=False)
class Sampling:
    """A bootstrap over prompts.

    Args:
        resamples: of the prompts.
        level: coverage of the intervals.
        seed: of drawing.
        cluster: [prompts], prompts of one number are drawn together; None = each for itself.
    """

    resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    cluster: IntArray | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What a result says of its intervals, without the clusters, which it names by their label."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}

    @property
    def options(self) -> dict[str, Any]:
        """The same as arguments of functions that draw."""
        return {**self.record, "cluster": self.cluster}

    def mean_interval(self, values_P: ArrayLike) -> Interval:
        """Return the interval of a mean over prompts."""
        return mean_interval(values_P, **self.options)

    def counts(self, prompts: int) -> FloatArray:
        """Return how often each prompt is drawn, [resamples, prompts]."""
        return resample_counts(prompts, self.resamples, np.random.default_rng(self.seed), self.cluster)
