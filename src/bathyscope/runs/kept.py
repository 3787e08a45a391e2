"""From which depth on shares of all tokens keep their final prediction: readings over pooled tokens, and their nulls.

A run whose lens was written before ``top1_kept`` was stored has none of them, but the mean over tokens alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.labels import token_weights
from bathyscope.measures.curves import one_norm
from bathyscope.runs.readings import DepthReading, Null
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval, small_sample
from bathyscope.statistics.kept_depth import interval_by_shares, kept_from, kept_reading
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.statistics.uncertainty import agree

QUANTILES: Final = {"half": 0.5, "tokens_90": 0.9}
"""Reading → the share of tokens that it is of."""
KEPT: Final = "top1_kept"
_FEW: Final = 8
"""Prompts, or clusters, below which resamples of them are too alike to show how uncertain a quantile of tokens is.

Of more prompts they are where all prompts read the same.
"""
AGREEMENT: Final = "top1_agreement"


@dataclass(frozen=True)
class TokenShares:
    """A quantity of a run's tokens by boundary: what each prompt's mean is, and how many tokens it is of.

    Args:
        by_prompt: [P, L + 1]; NaN where a prompt has no value.
        tokens: [P], positive.
        boundaries: that shares are known at; None = 0 … L.
    """

    by_prompt: FloatArray
    tokens: FloatArray
    boundaries: tuple[int, ...] | None = None

    @property
    def pooled(self) -> FloatArray:
        """[L + 1], the share of all tokens; NaN where no prompt has a value."""
        weights = np.where(np.isnan(self.by_prompt), 0.0, self.tokens[:, None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((np.nan_to_num(self.by_prompt) * weights).sum(0) / weights.sum(0))


def token_shares(lens: xr.Dataset, name: str) -> TokenShares | None:
    """Return a variable of the lens by boundary with the tokens that it is of; None where the lens has none."""
    if name not in lens or "boundary" not in lens[name].dims:
        return None
    read = one_norm(lens)
    by_prompt = np.asarray(read[name].transpose("prompt", "boundary").values, dtype=np.float64)
    counted = {f"n_averaged_{name}", "n_averaged", "n_tokens"} & set(read.variables)
    tokens = token_weights(read, name) if counted else np.ones(len(by_prompt))
    return TokenShares(by_prompt, np.where(tokens > 0, tokens, 1.0), _known_boundaries(read))


@dataclass(frozen=True, kw_only=True)
class KeptReading(DepthReading):
    """From which boundary on a share of all tokens keeps its final prediction; ``by_prompt`` is each prompt's own.

    Args:
        shares: [P, L + 1], of each prompt's tokens.
        tokens: [P].
        quantile: the share of tokens.
        boundaries: that shares are known at; None = 0 … L.
    """

    shares: FloatArray
    tokens: FloatArray
    quantile: float
    boundaries: tuple[int, ...] | None = None

    @property
    def statistic(self) -> Reading:
        """The reading of all tokens of the prompts that have a value."""
        return kept_reading(self.shares, self.tokens, self.quantile, self.cluster, self.boundaries)

    def of_first(self, count: int) -> Self:
        """Return the reading of the first prompts alone, without its controls."""
        return replace(super().of_first(count), shares=self.shares[:count], tokens=self.tokens[:count])

    @cached_property
    def value(self) -> float:
        """The reading of all tokens together, 0 … L; NaN where no prompt has a value."""
        reading = self.statistic
        return float(reading.take(reading.has_value).estimate()) if reading.has_value.any() else math.nan

    @cached_property
    def interval(self) -> Interval:
        """Both ends over prompts or clusters, NaN with fewer than two."""
        return _interval_of_mean([self.statistic], self.sampling)


@dataclass(frozen=True, kw_only=True)
class KeptNull(Null):
    """What controls read of a ``KeptReading``; prompts are pooled by tokens in the run and in every control.

    Args:
        reading: of the run.
        controls: of its controls, on the same prompts.
        seed: of resampling.
    """

    reading: Reading
    controls: tuple[Reading, ...]
    seed: int

    @property
    def value(self) -> float:
        """The mean over controls of what each reads."""
        usable = [control.take(control.has_value) for control in self.controls if control.has_value.any()]
        return float(np.mean([control.estimate() for control in usable])) if usable else math.nan

    @cached_property
    def moved(self) -> float:
        """The run less its controls, over the prompts that all of them read; NaN without any."""
        return float(self.differences_of_seeds().mean()) if self.paired.any() else math.nan

    def differences_of_seeds(self) -> FloatArray:
        """[S], the run less each control, over the prompts that all of them read."""
        run, *controls = (float(reading.take(self.paired).estimate()) for reading in (self.reading, *self.controls))
        return run - np.array(controls)

    def variance_over_prompts(self) -> tuple[float, float]:
        """Variance of ``moved`` by the bootstrap over prompts or clusters, and its degrees of freedom."""
        run, *controls = (reading.take(self.paired) for reading in (self.reading, *self.controls))
        weights = cluster_weights(run.weights, run.cluster)
        if weights.size < 2:
            return math.nan, math.nan
        counts = Sampling(seed=self.seed, cluster=run.cluster).counts(len(run.weights))
        # One draw serves the run and its controls, which are of the same prompts.
        resampled = run.estimate(counts) - np.mean([control.estimate(counts) for control in controls], axis=0)
        trust = small_sample(weights)
        return float(resampled.var(ddof=1)) / trust.shrinkage, trust.degrees_of_freedom

    def interval_of_value(self, sampling: Sampling, n_blocks: int) -> Interval:
        """Return the interval of ``value`` over prompts, the controls being these; NaN with fewer than two."""
        return _interval_of_mean(self.controls, sampling)


def kept_readings(
    lens: xr.Dataset,
    controls: dict[str, list[xr.Dataset]],
    n_blocks: int,
    seed: int,
    cluster: np.ndarray | None,
) -> dict[str, KeptReading]:
    """Return the reading of every quantile; NaN throughout where the lens does not store ``top1_kept``.

    Args:
        controls: lenses of the controls of each kind.
    """
    shares = _shares_or_none(lens, n_blocks)
    others = {kind: [_shares_or_none(control, n_blocks) for control in lenses] for kind, lenses in controls.items()}
    readings = {}
    for name, quantile in QUANTILES.items():
        by_prompt = kept_from(shares.by_prompt, quantile, shares.boundaries)
        statistic = kept_reading(shares.by_prompt, shares.tokens, quantile, cluster, shares.boundaries)
        nulls = {}
        for kind, seeds in others.items():
            rows = np.stack([kept_from(control.by_prompt, quantile) for control in seeds])
            statistics = tuple(kept_reading(seed_of.by_prompt, seed_of.tokens, quantile, cluster) for seed_of in seeds)
            difference = by_prompt - rows
            nulls[kind] = KeptNull(
                rows, difference, n_blocks, cluster, reading=statistic, controls=statistics, seed=seed
            )
        readings[name] = KeptReading(
            name,
            by_prompt,
            n_blocks,
            seed,
            nulls,
            cluster,
            shares=shares.by_prompt,
            tokens=shares.tokens,
            quantile=quantile,
            boundaries=shares.boundaries,
        )
    return readings


def _known_boundaries(lens: xr.Dataset) -> tuple[int, ...] | None:
    """Return the boundaries that a lens of stored states was read at; None where they are 0 … L, as in other runs."""
    boundaries = tuple(lens["boundary"].values.tolist()) if "boundary" in lens.coords else ()
    return None if boundaries == tuple(range(len(boundaries))) else boundaries


def _shares_or_none(lens: xr.Dataset, n_blocks: int) -> TokenShares:
    shares = token_shares(lens, KEPT)
    if shares is not None:
        return shares
    prompts = lens.sizes["prompt"]
    return TokenShares(np.full((prompts, n_blocks + 1), np.nan), np.ones(prompts))


def _interval_of_mean(readings: Sequence[Reading], sampling: Sampling) -> Interval:
    """Return the interval over prompts of the mean of readings of the same prompts; NaN with fewer than two."""
    none = Interval(math.nan, math.nan)
    if not readings:
        return none
    has_value = np.logical_and.reduce([reading.has_value for reading in readings])
    usable = [reading.take(has_value) for reading in readings]
    weights = cluster_weights(usable[0].weights, usable[0].cluster)
    if weights.size < 2:
        return none
    counts = sampling.take(has_value).counts(int(has_value.sum()))
    estimate = float(np.mean([reading.estimate() for reading in usable]))
    resampled = np.mean([reading.estimate(counts) for reading in usable], axis=0)
    interval = bootstrap_interval(estimate, resampled, weights, level=sampling.level, limits=usable[0].limits)
    if weights.size >= _FEW and not agree(resampled):
        return interval
    low, high = np.mean([interval_by_shares(reading, sampling.level) for reading in usable], axis=0)
    return Interval(min(interval.low, float(low)), max(interval.high, float(high)))
