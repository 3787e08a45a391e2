"""The depths behind the verdict, in blocks done, with what controls read.

- half, tokens_90: from which boundary on half, and nine tenths, of all tokens keep their final top-1 token (lens,
  ``top1_kept``; ``runs.kept``);
- readable: the mean over tokens of the boundary after which the top-1 token no longer changes (lens);
- own: the blocks until 90 % of the summed effect on the output of leaving out one block (skip, ``output_all``);
- later: the same of the effect on the output at later tokens only (skip, ``output_future``).

The last three are means over prompts.

How often these readings are right on models of known depth: docs/design/planted_depth.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import signed
from bathyscope.measures.curves import one_norm
from bathyscope.statistics.bootstrap import Interval, mean_interval, mean_variance
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.uncertainty import Agreed, Uncertainty, agree, interval_of_agreed

Datasets = Mapping[str, xr.Dataset]

SHARE = 0.9
"""Of the summed effect, until which blocks are counted."""
CLOSE = 1.0
"""Blocks by which two readings may differ and still agree; also the width of an interval that says enough."""
RESAMPLES = 1000
LEVEL = 0.95
"""Coverage of every interval."""
_NO_SPREAD = 1e-24
"""Variance, in blocks², of which nothing is left but rounding."""
_EFFECTS = {"own": "output_all", "later": "output_future"}


@dataclass(frozen=True)
class Null:
    """What controls of one kind read, and how far the run is from it.

    Args:
        by_control: [S, P], a row a seed; NaN for a prompt that has no reading.
        difference: [S, P], the run less its control, paired by prompt.
        n_blocks: L; depths are from 0 to it.
        cluster: [P], prompts of one number count as one; None = each for itself.
    """

    by_control: FloatArray
    difference: FloatArray
    n_blocks: int
    cluster: IntArray | None = None

    @property
    def seeds(self) -> int:
        """S, the number of controls."""
        return len(self.by_control)

    @property
    def value(self) -> float:
        """The mean reading of the controls, in blocks done; NaN where no prompt has one."""
        return mean_of(self.by_control)

    @property
    def moved(self) -> float:
        """The mean difference, the run less its controls, over the prompts that all of them read; NaN without any."""
        return mean_of(self.difference[:, self.paired])

    @cached_property
    def interval(self) -> Interval:
        """Student's interval of the difference between the run's model and untrained ones.

        Were the model untrained too, it would be one draw more: its variance is that of a mean over prompts plus
        (1 + 1/S) times that between seeds, with Satterthwaite's degrees of freedom. One seed shows no spread between
        seeds, so that the interval then speaks of that one control. Where all prompts agree it is as wide as their
        number leaves open. NaN with fewer than two prompts, or clusters.
        """
        # Prompts are random in the same way in every control; seeds are, too. Their variances add up.
        prompt_variance, prompt_freedom = self.variance_over_prompts()
        if math.isnan(prompt_variance):
            return Interval(math.nan, math.nan)
        parts = [(prompt_variance, prompt_freedom)]
        if self.seeds > 1:
            parts.append(((1 + 1 / self.seeds) * float(self.differences_of_seeds().var(ddof=1)), self.seeds - 1.0))
        total = sum(variance for variance, _ in parts)
        # Few seeds have few degrees of freedom; where they make up most of the variance, so has the interval.
        freedom = total**2 / sum(variance**2 / part_freedom for variance, part_freedom in parts) if total else 1.0
        # a run reads from 0 to L, and so do its controls
        farthest = (self.n_blocks + self.moved, self.n_blocks - self.moved)
        agreed = [Agreed(self.units, *farthest)] if prompt_variance <= _NO_SPREAD else []
        limits = (-float(self.n_blocks), float(self.n_blocks))
        return Uncertainty(self.moved, math.sqrt(total), freedom, agreed=agreed).interval(LEVEL, limits)

    @property
    def units(self) -> int:
        """How many prompts, or clusters, the run and every control read."""
        return int(self.paired.sum()) if self.cluster is None else int(np.unique(self.cluster[self.paired]).size)

    def variance_over_prompts(self) -> tuple[float, float]:
        """Variance of ``moved`` over prompts or clusters, and its degrees of freedom; NaN with fewer than two."""
        paired = self.difference[:, self.paired]
        cluster = None if self.cluster is None else self.cluster[self.paired]
        return mean_variance(paired.mean(0) if paired.size else [], cluster)

    def differences_of_seeds(self) -> FloatArray:
        """[S], the run less each control, over the prompts that all of them read."""
        return np.asarray(self.difference[:, self.paired].mean(1))

    def interval_of_value(self, sampling: Sampling, n_blocks: int) -> Interval:
        """Return the interval of ``value`` over prompts, the controls being these; NaN with fewer than two."""
        with np.errstate(invalid="ignore"):
            by_prompt = self.by_control.mean(0)
        has_value = ~np.isnan(by_prompt)
        return mean_interval(by_prompt[has_value], sampling.take(has_value), limits=(0.0, float(n_blocks)))

    @property
    def differs(self) -> bool:
        """The interval leaves out 0."""
        return self.interval.low > 0 or self.interval.high < 0

    @property
    def same(self) -> bool:
        """The interval lies within one block of 0: as good as no difference."""
        return self.interval.low > -CLOSE and self.interval.high < CLOSE

    @property
    def paired(self) -> np.ndarray:
        """[P], whether the run and every control read the prompt."""
        return np.asarray(~np.isnan(self.difference).any(0))

    @property
    def in_words(self) -> str:
        """By how many blocks training moved a depth: ``2.8 blocks earlier (95 % interval 2.5 to 3.1)``."""
        way = "earlier" if self.moved < 0 else "later"
        moved = f"{_size(self.moved)} blocks {way}"
        estimate = Estimate(self.moved, *sorted(self.interval, key=abs))
        return f"{moved} ({100 * LEVEL:g} % interval {estimate.interval(_size)})" if estimate.has_interval else moved

    @property
    def in_brackets(self) -> str:
        """The mean difference and its interval, to be in brackets."""
        return Estimate(self.moved, *self.interval).write_in_brackets(signed)


def _size(blocks: float) -> str:
    return signed(blocks)[1:]


@dataclass(frozen=True)
class DepthReading:
    """One depth of a run, in blocks done.

    Args:
        name: ``readable``, ``own`` or ``later``; ``half`` and ``tokens_90`` are ``runs.kept.KeptReading``.
        by_prompt: [P], NaN for a prompt that has none.
        n_blocks: L.
        seed: of the resampling.
        nulls: what controls read, by kind.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
    """

    name: str
    by_prompt: FloatArray
    n_blocks: int
    seed: int = 0
    nulls: Mapping[str, Null] = field(default_factory=dict)
    cluster: IntArray | None = None

    @property
    def null(self) -> Null | None:
        """What untrained models of this shape read; None where none was surveyed."""
        return self.nulls.get("untrained")

    def of_first(self, count: int) -> Self:
        """Return the reading of the first prompts alone, without its controls."""
        cluster = None if self.cluster is None else self.cluster[:count]
        return replace(self, by_prompt=self.by_prompt[:count], nulls={}, cluster=cluster)

    @property
    def value(self) -> float:
        """The mean over prompts, 0 … L; NaN where no prompt has one."""
        return mean_of(self.by_prompt)

    @property
    def units(self) -> int:
        """How many prompts, or clusters, have a value."""
        return self._count(~np.isnan(self.by_prompt))

    @property
    def all_units(self) -> int:
        """How many prompts, or clusters, the run has."""
        return self._count(np.ones(self.by_prompt.shape, dtype=bool))

    def _count(self, chosen: np.ndarray) -> int:
        return int(chosen.sum()) if self.cluster is None else int(np.unique(self.cluster[chosen]).size)

    @property
    def sampling(self) -> Sampling:
        """How prompts are resampled for its interval."""
        return Sampling(RESAMPLES, LEVEL, self.seed, self.cluster)

    @property
    def statistic(self) -> Reading:
        """The reading as one that resamples, differences and slopes are computed of."""
        limits = (0.0, float(self.n_blocks))
        weights = np.ones(len(self.by_prompt))
        return Reading(self.by_prompt[:, None], weights, only_entry, limits, cluster=self.cluster)

    @cached_property
    def interval(self) -> Interval:
        """Both ends, as wide as their number leaves open where all prompts agree; NaN with fewer than two of them."""
        has_value, limits = ~np.isnan(self.by_prompt), (0.0, float(self.n_blocks))
        values = self.by_prompt[has_value]
        if self.units > 1 and agree(values):
            return interval_of_agreed(self.value, self.units, LEVEL, limits)
        return mean_interval(values, self.sampling.take(has_value), limits=limits)

    @property
    def low(self) -> float:
        """Lower end of the interval over prompts; NaN with fewer than two."""
        return self.interval.low

    @property
    def high(self) -> float:
        """Upper end of the interval over prompts."""
        return self.interval.high

    @property
    def ratio(self) -> float:
        """The value as a share of L."""
        return self.value / self.n_blocks

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "not measured"
        return f"{Estimate(self.value, self.low, self.high):.1f}"


def readings_by_prompt(
    measures: Datasets, *, later_is_read: bool = True, protect_first: int = 1
) -> dict[str, FloatArray]:
    """Each reading of every prompt, [P]; NaN where the run cannot tell.

    Args:
        measures: datasets by name; ``lens``, and ``skip`` where blocks were left out.
        later_is_read: whether the effects on later tokens are those of the definition.
        protect_first: how many first tokens skip no block; a prompt of no more tokens has no effect to read, and one
            without a later sampled position none at later tokens.
    """
    readable = np.asarray(one_norm(measures["lens"])["prediction_depth"].values, dtype=np.float64)
    readings = {"readable": readable, **dict.fromkeys(_EFFECTS, np.full(readable.shape, np.nan))}
    skip = measures.get("skip")
    if skip is None or "block" not in skip.get("part", xr.DataArray([])).values:
        return readings
    for name, variable in _EFFECTS.items():
        if variable in skip and (later_is_read or name != "later"):
            effect_PL = skip[variable].sel(part="block", reduction="mean").transpose("prompt", "skipped")
            readings[name] = blocks_until(effect_PL.values)
            if "n_tokens" in skip.coords:
                readings[name][skip["n_tokens"].values <= protect_first] = np.nan
    if "positions" in skip:
        # before such a position every token keeps its blocks, so that nothing was left out for later tokens to miss
        latest = skip["positions"].transpose("prompt", "sample").max("sample") if skip.sizes["sample"] else -1
        readings["later"] = np.where(latest <= protect_first, np.nan, readings["later"])
    return readings


def blocks_until(effect: ArrayLike, share: float = SHARE) -> FloatArray:
    """Blocks until ``share`` of the summed effect ``[..., L]`` is reached, [...]: 0 … L, between blocks by proportion.

    0 where no block has an effect; NaN where an effect is not known.
    """
    values = np.asarray(effect, dtype=np.float64)
    total = values.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        done = np.cumsum(values, -1) / total
    # The share is reached within this block: as much of the block counts as its effect was needed.
    last = np.argmax(done >= share, axis=-1)
    reached = np.take_along_axis(done, last[..., None], -1)[..., 0]
    share_of_last = np.take_along_axis(values / np.where(total > 0, total, 1.0), last[..., None], -1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        place = last + 1 - (reached - share) / share_of_last
    return np.asarray(np.where(total[..., 0] > 0, place, np.where(total[..., 0] == 0, 0.0, np.nan)), dtype=np.float64)


def mean_of(values: FloatArray) -> float:
    """The mean of the values that are not NaN; NaN where all are."""
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if numbers.size else math.nan
