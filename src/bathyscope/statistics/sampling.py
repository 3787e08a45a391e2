"""How prompts are drawn again for an interval: how often, from which seed, and which of them as one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.errors import OptionError, describe_value
from bathyscope.options import Range, Seed, Share, convert, require_allowed
from bathyscope.statistics.inputs import require_one_by_prompt

_PROMPTS: Final = Annotated[int, Range(0)]
_TIMES: Final = Annotated[int, Range(1)]


@dataclass(frozen=True, eq=False)
class Sampling:
    """A bootstrap over prompts: everything that an interval is computed with, next to the values.

    Args:
        resamples: of the prompts.
        level: coverage of the intervals.
        seed: of drawing; equal values and an equal seed give equal intervals.
        cluster: [prompts], prompts of one number are drawn together; None = each for itself. What is read off
            ``Reading`` or ``Curves`` has its clusters there, since these are cut to the prompts that have a value.

    Raises:
        OptionError: no whole number of resamples, a level or a seed out of range, or clusters that are not one value
            for each prompt.

    Example:
        >>> from bathyscope.extend.statistics import Sampling
        >>> Sampling(resamples=200, seed=1).counts(5).shape
        (200, 5)
    """

    resamples: Annotated[int, Range(1)] = 1000
    level: Share = 0.95
    seed: Seed = 0
    cluster: IntArray | None = None

    def __post_init__(self) -> None:
        require_allowed(self, "Sampling")
        if self.cluster is not None:
            cluster = np.asarray(self.cluster)
            if cluster.ndim != 1:
                raise OptionError(
                    f"Sampling: cluster of shape {list(cluster.shape)} is not one value for each prompt; give "
                    "[prompts]."
                )
            object.__setattr__(self, "cluster", cluster)  # the class is frozen, and a list may be given

    @property
    def record(self) -> dict[str, Any]:
        """What a result says of its intervals, without the clusters, which it names by their label."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}

    def counts(self, prompts: int) -> FloatArray:
        """Return how often each prompt is drawn, [resamples, prompts]."""
        return resample_counts(prompts, self.resamples, np.random.default_rng(self.seed), self.cluster)

    def take(self, prompts: ArrayLike) -> Sampling:
        """Return the same of some of the prompts, given by a mask or their numbers."""
        return self if self.cluster is None else replace(self, cluster=self.cluster[np.asarray(prompts)])


OF_DIFFERENCES: Final = Sampling(resamples=2000)
"""For what has a p-value, which is never below 1 / (resamples + 1) and is corrected for many tests."""


def require_sampling(sampling: object) -> None:
    """Refuse what is no sampling.

    Raises:
        OptionError: something else.
    """
    if not isinstance(sampling, Sampling):
        raise OptionError(
            f"sampling={describe_value(sampling)} is no Sampling; give one such as Sampling(resamples=1000, "
            "level=0.95)."
        )


def resample_counts(
    n_prompts: int, resamples: int, rng: np.random.Generator, cluster: IntArray | None = None
) -> FloatArray:
    """How often each prompt is drawn with replacement: ``[resamples, n_prompts]``, rows summing to n_prompts.

    Times the prompts' own weights, these are the weights of the resampled means. With clusters these are drawn, as
    many as there are, and each prompt as often as its cluster.

    Args:
        n_prompts: how many there are.
        resamples: how often they are drawn.
        rng: draws them.
        cluster: [prompts], prompts of one number are drawn together; None = each for itself.

    Raises:
        OptionError: ``rng`` is no generator of numpy, numbers that are not whole or out of range, or clusters that are
            not one for each prompt.

    Example:
        >>> from bathyscope.extend.statistics import resample_counts
        >>> counts = resample_counts(3, 1000, np.random.default_rng(0))
        >>> counts.shape, set(counts.sum(1).tolist())
        ((1000, 3), {3.0})
    """
    if not isinstance(rng, np.random.Generator):
        raise OptionError(f"rng={describe_value(rng)} draws nothing; give numpy.random.default_rng(seed).")
    convert(_PROMPTS, n_prompts, "n_prompts")
    convert(_TIMES, resamples, "resamples")
    if cluster is not None:
        require_one_by_prompt(cluster, "cluster", n_prompts)
        numbers, member = np.unique(cluster, return_inverse=True)
        # A drawn cluster brings all its prompts, so a prompt counts as often as its cluster was drawn.
        return np.take(resample_counts(numbers.size, resamples, rng), member, axis=1)
    prompts = rng.integers(n_prompts, size=(resamples, n_prompts))
    # One count for all resamples together: every resample has its own range of n_prompts cells.
    cell = prompts + n_prompts * np.arange(resamples)[:, None]
    counts = np.bincount(cell.ravel(), minlength=resamples * n_prompts)
    return counts.reshape(resamples, n_prompts).astype(np.float64)


def cluster_weights(weights: ArrayLike, cluster: IntArray | None = None) -> FloatArray:
    """``[clusters]``, the summed weights of each cluster's prompts; the prompts' own where there are no clusters."""
    prompt_weights = np.asarray(weights, dtype=np.float64)
    if cluster is None:
        return prompt_weights
    require_one_by_prompt(cluster, "cluster", prompt_weights.size)
    return np.bincount(np.unique(cluster, return_inverse=True)[1], weights=prompt_weights).astype(np.float64)
