"""Differences of an estimate between runs, with a bootstrap over prompts: paired, two-sample, or along a slope.

All of them are *contrasts* Σ_i c_i x_i of the estimates x_i of several runs: (−1, +1) for a difference, the
weights of a least-squares line for a slope. Runs on the same prompts form a *cohort*: one resample of the
prompts serves them all, so that what a prompt does to every run cancels (paired). Cohorts are resampled
independently of each other (two-sample). Where prompts are in clusters, clusters are drawn, and cohorts that have any
of them in common see the same ones.

Suffixes: R resamples, P prompts.
Source: the questions are those of hu2025; for the interval see docs/design/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError, describe_value
from bathyscope.statistics.bootstrap import BIAS_FACTOR, SmallSample, bias_of, small_sample
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import OF_DIFFERENCES, Sampling, cluster_weights, require_sampling, resample_counts
from bathyscope.statistics.uncertainty import Agreed, Uncertainty, agree


@dataclass(frozen=True)
class Term:
    """One run's part in a contrast: coefficient × estimate.

    Raises an OptionError where they are something else than a Reading and a finite number.

    Example:
        >>> from bathyscope.extend.statistics import Reading, Term
        >>> mean = Reading(np.array([[2.0], [4.0]]), np.ones(2), lambda means: means[..., 0])
        >>> Term(mean, -1.0).coefficient
        -1.0
    """

    reading: Reading
    coefficient: float

    def __post_init__(self) -> None:
        if not isinstance(self.reading, Reading):
            raise OptionError(
                f"reading={describe_value(self.reading)} is no Reading; give Reading(values, weights, locate)."
            )
        if not isinstance(self.coefficient, Real) or not math.isfinite(self.coefficient):
            raise OptionError(
                f"coefficient={describe_value(self.coefficient)} is no number to multiply an estimate with; give one "
                "such as 1.0 or -1.0."
            )


@dataclass(frozen=True)
class Contrast:
    """Σ c_i x_i with its uncertainty. NaN stands for what does not exist."""

    estimate: float
    estimates: tuple[float, ...]
    """The x_i, in the order of the terms, each from the prompts that all runs of its cohort have values for."""
    n_prompts: tuple[int, ...]
    """Prompts in use, one number a cohort."""
    n_units: int = 0
    """Prompts or clusters that are drawn independently, of all cohorts together: copies of a prompt are one."""
    ci_low: float = math.nan
    ci_high: float = math.nan
    standard_error: float = math.nan
    """Of the estimate, corrected for few and unequally weighted prompts or clusters; NaN for whole-numbered
    estimators."""
    p_value: float = math.nan
    """Two-sided, of the value 0: one minus the level at which the interval would begin to hold 0; NaN for
    whole-numbered estimators, whose test is that of the real-valued one they are read off."""
    positive_share: float = math.nan
    """Share of the resamples above 0; one that equals 0 counts half."""
    exists_share: float = math.nan
    """Share of the resamples in which every x_i exists."""
    effect_size: float = math.nan
    """Estimate over the spread of single prompts, or clusters, that resampling shows (Cohen's d); NaN where there is
    none, and for whole-numbered estimators."""
    p_equivalence: float = math.nan
    """Of a value as far from 0 as the bound that was asked for, or farther: the larger of two one-sided tests
    (Schuirmann 1987). NaN without a bound, and for whole-numbered estimators."""


def paired_difference(
    first: Reading, second: Reading, sampling: Sampling = OF_DIFFERENCES, *, bound: float | None = None
) -> Contrast:
    """Return second − first of two runs on the same prompts, in the same order; both see the same resamples.

    Prompts without a value in either run are left out of both. Arguments are those of :func:`contrast`.
    """
    return contrast([[Term(first, -1.0), Term(second, 1.0)]], sampling, bound=bound)


def two_sample_difference(
    first: Reading, second: Reading, sampling: Sampling = OF_DIFFERENCES, *, bound: float | None = None
) -> Contrast:
    """Return second − first of two runs on different prompts, each resampled on its own (see :func:`contrast`)."""
    return contrast([[Term(first, -1.0)], [Term(second, 1.0)]], sampling, bound=bound)


def slope_coefficients(x: ArrayLike) -> FloatArray:
    """c_i with Σ c_i y_i = the least-squares slope of y over ``x`` ``[runs]``.

    Raises an OptionError where ``x`` does not have two different finite values.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all() or np.unique(x).size < 2:
        raise OptionError(f"A slope needs at least two different sizes; given: {', '.join(f'{v:g}' for v in x.flat)}.")
    centred = x - x.mean()
    return centred / (centred**2).sum()


def contrast(
    cohorts: Sequence[Sequence[Term]], sampling: Sampling = OF_DIFFERENCES, *, bound: float | None = None
) -> Contrast:
    """Σ c_i x_i over the runs of all cohorts, with a bootstrap interval over prompts.

    The interval is Student's with the bootstrap's standard error, extended against the bias, as for a single
    estimate (:func:`bathyscope.statistics.bootstrap.bootstrap_interval`, which it equals for one term whose prompts
    differ). The variances of the cohorts add up, and so do their degrees of freedom after Welch and Satterthwaite.
    Where prompts show no spread, the interval is as wide as their number leaves open (``Uncertainty``); a quantity
    without limits has none. The p-value inverts the same interval and is never below 1/(resamples + 1),
    which is what this many resamples can show.

    ``p_equivalence`` inverts the same interval at ±``bound``: it is below 0.05 exactly where the interval of level 0.90
    lies between them.

    Args:
        cohorts: runs on the same prompts, in the same order and the same clusters, are in one cohort.
        sampling: of the prompts; clusters are those of the readings.
        bound: above 0: values within ±bound are as good as none; None = not asked.

    Raises:
        OptionError: no terms, no sampling, or one with clusters.

    Example:
        >>> from bathyscope.extend.statistics import Reading, Term, contrast
        >>> def mean_of(values):
        ...     return Reading(np.array(values)[:, None], np.ones(len(values)), lambda means: means[..., 0])
        >>> deep, shallow = mean_of([5.0, 6.0, 7.0, 6.5]), mean_of([2.0, 3.5, 3.0, 4.0])
        >>> found = contrast([[Term(deep, 1.0), Term(shallow, -1.0)]])
        >>> found.estimate, found.ci_low > 0
        (3.0, True)
    """
    if not cohorts or not all(terms and all(isinstance(term, Term) for term in terms) for terms in cohorts):
        raise OptionError("cohorts are lists of one Term(reading, coefficient) or more; give [[Term(reading, 1.0)]].")
    require_sampling(sampling)
    if sampling.cluster is not None:
        raise OptionError(
            "Readings have their own clusters; leave cluster out of the sampling, and give it to Reading."
        )
    level = sampling.level
    usable = [_usable(terms) for terms in cohorts]
    together = _group_by_clusters(usable)
    # Groups without a common cluster are independent samples, so each is resampled from its own stream.
    streams = np.random.SeedSequence(sampling.seed).spawn(len(together))
    parts = [
        _part([usable[number] for number in numbers], sampling.resamples, np.random.default_rng(stream))
        for numbers, stream in zip(together, streams)
    ]
    result = _real_valued(parts, cohorts, level, bound)
    if any(term.reading.whole is not None for terms in cohorts for term in terms):
        result = _whole_numbered(result, parts, level)
    return _restore_order(result, [number for numbers in together for number in numbers], list(map(len, cohorts)))


def _real_valued(
    parts: Sequence[_Part], cohorts: Sequence[Sequence[Term]], level: float, bound: float | None
) -> Contrast:
    estimate = math.fsum(part.estimate for part in parts)
    estimates = tuple(x for part in parts for x in part.estimates.tolist())
    n_prompts = tuple(count for part in parts for count in part.n_prompts)
    n_units = sum(part.n_units for part in parts)
    resampled = np.sum([part.resampled_sums for part in parts], axis=0)
    existing = resampled[~np.isnan(resampled)]
    # A single prompt or cluster shows no spread: the estimate stands without an interval.
    if any(part.correction is None for part in parts):
        return Contrast(estimate, estimates, n_prompts, n_units)
    without_interval = Contrast(estimate, estimates, n_prompts, n_units, exists_share=existing.size / resampled.size)
    if math.isnan(estimate) or existing.size < 2:
        return without_interval
    uncertainty = _uncertainty(estimate, parts, bias_of(estimate, existing))
    low, high = uncertainty.interval(level, _limits(cohorts))
    least = 1 / (resampled.size + 1)
    return replace(
        without_interval,
        ci_low=low,
        ci_high=high,
        standard_error=uncertainty.error,
        p_value=_at_least(least, uncertainty.p_of_none()),
        positive_share=_positive_share(existing),
        effect_size=_effect_size(estimate, parts),
        p_equivalence=math.nan if bound is None else _at_least(least, uncertainty.p_of_more(bound)),
    )


def _at_least(least: float, p_value: float) -> float:
    """Return a p-value, or the smallest that this many resamples can show; NaN without one."""
    return p_value if math.isnan(p_value) else max(p_value, least)


def _whole_numbered(real_valued: Contrast, parts: Sequence[_Part], level: float) -> Contrast:
    """The contrast of what the real-valued estimates round to.

    Rounded resamples would often agree where the prompts leave doubt. So the real-valued ones, moved away from
    their estimates until their spread is that of Student's interval, and once more against their bias, are
    rounded, and the interval holds the middle ``level`` of both.
    """
    rounded = [part.rounded(part.estimates[:, None])[:, 0] for part in parts]
    estimates = tuple(x for values in rounded for x in values.tolist())
    estimate = math.fsum(float(part.coefficients @ values) for part, values in zip(parts, rounded))
    without_interval = replace(
        Contrast(estimate, estimates, real_valued.n_prompts, real_valued.n_units), exists_share=real_valued.exists_share
    )
    if math.isnan(real_valued.ci_low):
        return without_interval
    # where prompts agree, resamples of them do, and the ends are as far away as those of the real-valued estimate
    agree = any(part.variance == 0 for part in parts)
    least, most = _limits([[Term(r, float(c)) for r, c in zip(part.readings, part.coefficients)] for part in parts])
    by_agreement = [
        min(max(estimate + end - real_valued.estimate, least), most)
        for end in (real_valued.ci_low, real_valued.ci_high)
    ]
    ends = [estimate, *(by_agreement if agree else [])]
    # Once around the estimate and once moved against its bias; the interval holds both.
    for against_bias in (False, True):
        resampled = np.sum([part.widened(level, against_bias) for part in parts], axis=0)
        resampled = resampled[~np.isnan(resampled)]
        ends += np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], method="closest_observation").tolist()
    resampled = np.sum([part.coefficients @ part.rounded(part.resampled) for part in parts], axis=0)
    return replace(
        without_interval,
        ci_low=min(ends),
        ci_high=max(ends),
        positive_share=_positive_share(resampled[~np.isnan(resampled)]),
    )


@dataclass(frozen=True)
class _Part:
    """What cohorts that are drawn together add to the sum: K runs on the same prompts, or of the same clusters."""

    readings: Sequence[Reading]
    coefficients: FloatArray
    """``[K]``"""
    estimates: FloatArray
    """``[K]``, real-valued."""
    resampled: FloatArray
    """``[K, R]``, of the same resamples of prompts."""
    correction: SmallSample | None
    """None with fewer than two prompts or clusters."""
    n_prompts: tuple[int, ...]
    """Of each cohort."""
    n_units: int
    """Prompts, or clusters, that are drawn."""
    n_effective: float
    """Number of equally weighted prompts or clusters that would average as well (Kish)."""

    @property
    def estimate(self) -> float:
        return float(self.coefficients @ self.estimates)

    @property
    def resampled_sums(self) -> FloatArray:
        """``[R]``, the part's resampled sums."""
        return self.coefficients @ self.resampled

    @cached_property
    def variance(self) -> float:
        """Of the part's sum; NaN with fewer than two resamples."""
        assert self.correction is not None
        existing = self.resampled_sums[~np.isnan(self.resampled_sums)]
        if existing.size < 2:
            return math.nan
        return 0.0 if agree(existing) else float(existing.var(ddof=1)) / self.correction.shrinkage

    @property
    def agreed(self) -> Agreed:
        """What prompts that show no spread leave open."""
        terms = [Term(reading, float(coefficient)) for reading, coefficient in zip(self.readings, self.coefficients)]
        low, high = _limits([terms])
        return Agreed(self.n_effective, self.estimate - low, high - self.estimate)

    def rounded(self, values: FloatArray) -> FloatArray:
        """``[K, R]`` real-valued estimates as whole-numbered ones."""
        rows = [row if reading.whole is None else reading.whole(row) for reading, row in zip(self.readings, values)]
        return np.stack(rows)

    def widened(self, level: float, against_bias: bool) -> FloatArray:
        """``[R]``, rounded sums of resamples as far from the estimates as Student's interval reaches."""
        assert self.correction is not None
        quantile = stats.t.ppf((1 + level) / 2, self.correction.degrees_of_freedom)
        reach = quantile / stats.norm.ppf((1 + level) / 2) / math.sqrt(self.correction.shrinkage)
        centre = self.estimates[:, None]
        bias = BIAS_FACTOR * (np.nanmedian(self.resampled, axis=1, keepdims=True) - centre) if against_bias else 0.0
        ends = np.array([reading.limits for reading in self.readings])
        moved = np.clip(centre + reach * (self.resampled - centre) - bias, ends[:, :1], ends[:, 1:])
        return self.coefficients @ self.rounded(moved)


def _usable(terms: Sequence[Term]) -> list[Term]:
    """One cohort on the prompts that every run of it has a value for."""
    usable = np.logical_and.reduce([term.reading.has_value for term in terms])
    return [Term(term.reading.take(usable), term.coefficient) for term in terms]


def _group_by_clusters(cohorts: Sequence[Sequence[Term]]) -> list[list[int]]:
    """Divide the numbers of the cohorts into groups that share no cluster with each other."""
    groups: list[tuple[set[int], list[int]]] = []
    for number, terms in enumerate(cohorts):
        cluster = terms[0].reading.cluster
        clusters, members = set() if cluster is None else set(cluster.tolist()), [number]
        # A cohort joins every group with which it shares a cluster, and so merges these groups.
        for group in [group for group in groups if group[0] & clusters]:
            clusters, members = clusters | group[0], [*group[1], *members]
            groups.remove(group)
        groups.append((clusters, members))
    return [members for _, members in groups]


def _restore_order(result: Contrast, cohorts: Sequence[int], sizes: Sequence[int]) -> Contrast:
    """Put the numbers of each run and cohort into the order in which the caller listed these."""
    ends = np.cumsum([sizes[number] for number in cohorts])
    of_cohort = dict(zip(cohorts, np.split(np.array(result.estimates), ends[:-1])))
    estimates = np.concatenate([of_cohort[number] for number in range(len(sizes))])
    counts = dict(zip(cohorts, result.n_prompts))
    return replace(result, estimates=tuple(estimates.tolist()), n_prompts=tuple(counts[n] for n in range(len(sizes))))


def _part(cohorts: Sequence[Sequence[Term]], resamples: int, rng: np.random.Generator) -> _Part:
    terms = [term for cohort in cohorts for term in cohort]
    readings, coefficients = [term.reading for term in terms], np.array([term.coefficient for term in terms])
    n_prompts = tuple(len(cohort[0].reading.weights) for cohort in cohorts)
    estimates = np.array([float(r.estimate()) if len(r.weights) else math.nan for r in readings])
    weights = [cluster_weights(reading.weights, reading.cluster) for reading in readings]
    if min(map(len, weights)) < 2:
        none = np.full((len(terms), resamples), np.nan)
        fewest = min(map(len, weights))
        return _Part(readings, coefficients, estimates, none, None, n_prompts, fewest, float(fewest))
    resampled = np.stack([r.estimate(counts) for r, counts in zip(readings, _counts(readings, resamples, rng))])
    # the run whose prompts weigh most unequally decides: its error is known least
    worst = min(weights, key=lambda w: small_sample(w).degrees_of_freedom)
    n_effective = float(worst.sum() ** 2 / (worst**2).sum())
    return _Part(
        readings, coefficients, estimates, resampled, small_sample(worst), n_prompts, _units(readings), n_effective
    )


def _units(readings: Sequence[Reading]) -> int:
    clusters = [reading.cluster for reading in readings if reading.cluster is not None]
    return np.unique(np.concatenate(clusters)).size if clusters else len(readings[0].weights)


def _counts(readings: Sequence[Reading], resamples: int, rng: np.random.Generator) -> list[FloatArray]:
    """For each reading how often each resample draws its prompts, ``[R, P]``: the same draw for all."""
    clusters = [reading.cluster for reading in readings]
    if any(cluster is None for cluster in clusters):
        return [resample_counts(len(readings[0].weights), resamples, rng)] * len(readings)
    every = np.concatenate([cluster for cluster in clusters if cluster is not None])
    _, member = np.unique(every, return_inverse=True)
    counts = resample_counts(int(member.max()) + 1, resamples, rng)
    ends = np.cumsum([len(reading.weights) for reading in readings])
    return [np.take(counts, columns, axis=1) for columns in np.split(member, ends[:-1])]


def _uncertainty(estimate: float, parts: Sequence[_Part], bias: float) -> Uncertainty:
    """Variances of parts add up, and their degrees of freedom after Welch and Satterthwaite."""
    variances = np.array([part.variance for part in parts])
    freedoms = np.array([part.correction.degrees_of_freedom for part in parts if part.correction is not None])
    agreed = [part.agreed for part in parts if part.variance == 0]
    total = float(variances.sum())
    if total == 0:
        return Uncertainty(estimate, 0.0, float(freedoms.min()), bias, agreed)
    shares = variances / total
    return Uncertainty(estimate, math.sqrt(total), float(1 / (shares**2 / freedoms).sum()), bias, agreed)


def _positive_share(resampled: FloatArray) -> float:
    return float(((resampled > 0) + 0.5 * (resampled == 0)).mean())


def _effect_size(estimate: float, parts: Sequence[_Part]) -> float:
    of_a_prompt = math.sqrt(sum(part.variance * part.n_effective for part in parts) / len(parts))
    return estimate / of_a_prompt if of_a_prompt > 0 else math.nan


def _limits(cohorts: Sequence[Sequence[Term]]) -> tuple[float, float]:
    # a run in the middle of a slope has the coefficient 0, whatever its limits
    ends = [
        sorted(term.coefficient * limit for limit in term.reading.limits)
        for terms in cohorts
        for term in terms
        if term.coefficient
    ]
    return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)
