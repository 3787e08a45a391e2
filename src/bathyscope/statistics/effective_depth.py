"""Effective depth of a model on a set of prompts, by nine estimators, each with a bootstrap interval.

Three curves are read in two ways each (as published and interpolated), and three
numbers need no curve: settle depth and prediction depth of tokens, centre of mass of the skip effects.
Source: hu2025, Section 3 (the three criteria); csordas2025, depth score (centre of mass).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval
from bathyscope.statistics.crossing import (
    KL_FRACTION,
    OVERLAP_THRESHOLD,
    Criterion,
    block_at,
    block_input_at,
    centre_of_mass,
    cosine_depth,
    crossing_reason,
    kl_depth,
    layer_effect,
    overlap_depth,
)
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.statistics.uncertainty import agree, interval_of_agreed


@dataclass(frozen=True)
class DepthInputs:
    """Per-prompt curves of one run: P prompts, L blocks. A prompt without a value has NaN and is left out.

    The cosine is indexed by block, KL and overlap by block input (boundaries 0 … L−1), token depths by
    boundary (0 … L).
    """

    cosine: FloatArray
    """``[P, L]``, mean over the prompt's tokens, and over cos(a_l, h_l), cos(m_l, h_l + a_l) and cos(c_l, h_l)."""
    kl: FloatArray
    """``[P, L]``, mean over the prompt's tokens of KL(p_b‖p_L), nats."""
    overlap: FloatArray
    """``[P, L]``, mean over the prompt's tokens of the top-k overlap with p_L, a share."""
    n_tokens: FloatArray
    """``[P]``, tokens that the cosine is a mean over: its weights."""
    effect_future: FloatArray | None = None
    """``[P, L, L]`` (skipped × block), relative changes; None where skip effects were not measured."""
    settle_depth: FloatArray | None = None
    """``[P]``, mean over the prompt's tokens of the settle depth; None where it was not measured."""
    prediction_depth: FloatArray | None = None
    """``[P]``, mean over the prompt's tokens of the prediction depth; None where it was not measured."""
    n_lens: FloatArray | None = None
    """``[P]``, tokens that the lens is a mean over: weights of KL and overlap; None = ``n_tokens``."""
    cluster: IntArray | None = None
    """``[P]``, prompts of one number are resampled as one; None where each stands alone."""

    def weights(self, curve: str) -> FloatArray:
        """``[P]``, the tokens that each prompt's own mean is over: of ``cosine`` or of what the lens gives."""
        return self.n_tokens if curve == "cosine" or self.n_lens is None else self.n_lens

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return int(self.cosine.shape[1])


@dataclass(frozen=True)
class DepthEstimate:
    """One estimator's answer. NaN stands for what does not exist, and ``reason`` then says why."""

    depth: float
    """Blocks done, 0 … L, the scale that all estimators share."""
    ratio: float
    """Blocks done / L."""
    index: float
    """0-based block, block input or boundary, whichever the estimator's curve is indexed by, as published."""
    ci_low: float
    """Lower end of the interval of ``depth``, over the resamples that meet the criterion."""
    ci_high: float
    """Upper end."""
    crossing_share: float
    """Share of the resamples in which the criterion is met at all; NaN with fewer than two prompts."""
    reason: str = ""
    """Why there is no depth or no interval; empty where both exist."""


Locate = Callable[..., FloatArray]
_USUAL: Final = Sampling()

CURVES = ("cosine", "kl", "overlap")
READINGS = ("", "interpolated_")
"""How a depth is read off a curve, as the estimator's name begins."""
ESTIMATORS = (
    *(f"{reading}{curve}" for reading in READINGS for curve in CURVES),
    "settle",
    "prediction",
    "centre_of_mass",
)


def measure_of(estimator: str) -> str:
    """Return the measure that an estimator is read off, the only one that it needs."""
    if estimator.endswith("cosine"):
        return "residual"
    return "skip" if estimator == "centre_of_mass" else "lens"


def blocks_done(estimator: str) -> float:
    """How many blocks are done at index 0 of an estimator, so that all are on one scale, 0 … L.

    The last block that is counted is done: block l is l + 1. A position between blocks lies between their middles, and
    block l's middle is l + ½. A boundary is the number of blocks before it.
    """
    if estimator == "cosine":
        return 1.0
    return 0.5 if estimator.endswith(("cosine", "centre_of_mass")) else 0.0


class Means(NamedTuple):
    """A mean curve ``[X]`` with its resampled curves ``[resamples, X]``, of which a single prompt or cluster has none.

    ``weights`` are those of the resampled units: prompts, or clusters.
    """

    curve: FloatArray
    resampled: FloatArray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True)
class Estimator(Reading):
    """A reading of a depth, which ``whole`` makes a whole-numbered one, and what results say of it."""

    curve: str
    """What it is read off; estimators of one curve share values and weights."""
    explain: Callable[[FloatArray], str]
    """Why a mean curve ``[X]`` has no depth, where it has none."""
    published: Locate | None = None
    """For a whole-numbered estimator, which has its interval from the real-valued one: mean curves ``[..., X]`` to
    whole-numbered depths ``[...]``, NaN where the criterion is not met."""
    published_offset: float = 0.0
    """Blocks done at the whole-numbered depth 0."""
    offset: float = 0.0
    """Blocks done at the real-valued depth 0."""

    def means(self, sampling: Sampling) -> Means:
        """Return the mean and resampled means of the prompts' values, which estimators of one curve share."""
        assert sampling.cluster is None, "readings have their own clusters"
        usable = self.take(self.has_value)
        curve = weighted_mean(usable.values, usable.weights)
        weights = cluster_weights(usable.weights, usable.cluster)
        if len(weights) < 2:
            return Means(curve, np.empty((0, usable.values.shape[1])), weights)
        counts = replace(sampling, cluster=usable.cluster).counts(len(usable.weights))
        return Means(curve, weighted_mean(usable.values, counts * usable.weights), weights)

    def read(self, means: Means, n_blocks: int, level: float) -> DepthEstimate:
        """The depth with its interval, from the means of the estimator's values and weights."""
        depth = float(self.locate(means.curve))
        reasons = [self.explain(means.curve)] if math.isnan(depth) else []
        low, high, share = math.nan, math.nan, math.nan
        if len(means.weights) == 1:
            reasons.append("an interval needs at least two prompts with values, and there is one")
        elif len(means.weights) > 1:
            resampled = self.locate(means.resampled)
            low, high = self._interval(depth, resampled, means.weights, level)
            share = float((~np.isnan(resampled)).mean())
            if math.isnan(low) and not math.isnan(depth):
                reasons.append("too few resamples meet the criterion for an interval")
        offset = self.offset
        if self.published is not None and self.whole is not None:
            # the interval is what the interpolated position's touches
            depth, offset = float(self.published(means.curve)), self.published_offset
            first, last = self.whole(np.array([low, high]))
            low, high = float(np.minimum(first, depth)), float(np.maximum(np.minimum(last, n_blocks - 2), depth))
        done = depth + offset
        return DepthEstimate(done, done / n_blocks, depth, low + offset, high + offset, share, "; ".join(reasons))

    def _interval(self, depth: float, resampled: FloatArray, weights: FloatArray, level: float) -> Interval:
        """Return the interval of the real-valued depth.

        Where it is a mean of one number a prompt, and all prompts have the same, it is as wide as their number leaves
        open: that of the verdict's reading of the same numbers, and of differences.
        """
        if self.values.shape[1:] == (1,) and agree(resampled):
            return interval_of_agreed(depth, float(weights.sum() ** 2 / (weights**2).sum()), level, self.limits)
        return bootstrap_interval(depth, resampled, weights, level=level, limits=self.limits)

    def ratio(self, n_blocks: int) -> Reading:
        """The reading of blocks done / L."""
        low, high = ((limit + self.offset) / n_blocks for limit in self.limits)
        whole = None
        if self.whole is not None:
            whole = partial(_whole_ratio, self.whole, self.offset, self.published_offset, n_blocks)
        locate = partial(_ratio, self.locate, self.offset, n_blocks)
        return Reading(self.values, self.weights, locate, (low, high), whole, self.cluster)


def _ratio(locate: Locate, offset: float, n_blocks: int, mean: FloatArray) -> FloatArray:
    return (locate(mean) + offset) / n_blocks


def _whole_ratio(whole: Locate, offset: float, of_whole: float, n_blocks: int, ratio: FloatArray) -> FloatArray:
    # a position on a block's edge must come back onto it from the ratio
    return (whole(np.round(ratio * n_blocks - offset, 9)) + of_whole) / n_blocks


def effective_depth(
    curves: DepthInputs,
    sampling: Sampling = _USUAL,
    *,
    kl_fraction: float = KL_FRACTION,
    overlap_threshold: float = OVERLAP_THRESHOLD,
) -> dict[str, DepthEstimate]:
    """All estimators (keys and order of :data:`ESTIMATORS`) with intervals from resampling prompts.

    Curves are token-weighted over prompts (hu2025). Token depths and the effect behind the centre of mass are
    prompt-weighted: each prompt counts the same.

    Args:
        sampling: of the prompts; clusters are those of the curves.
        kl_fraction: share of the largest KL below which the kl criterion is met, in (0, 1].
        overlap_threshold: overlap above which the overlap criterion is met, in [0, 1).
    """
    return estimate_each(estimators(curves, kl_fraction, overlap_threshold), curves.n_blocks, sampling)


def estimate_each(estimator_of: Mapping[str, Estimator], n_blocks: int, sampling: Sampling) -> dict[str, DepthEstimate]:
    """Return each estimator's answer; those of one curve share its resampled means."""
    means: dict[str, Means] = {}
    estimates: dict[str, DepthEstimate] = {}
    for name, estimator in estimator_of.items():
        if estimator.curve not in means:
            means[estimator.curve] = estimator.means(sampling)
        estimates[name] = estimator.read(means[estimator.curve], n_blocks, sampling.level)
    return estimates


def estimators(
    curves: DepthInputs, kl_fraction: float = KL_FRACTION, overlap_threshold: float = OVERLAP_THRESHOLD
) -> dict[str, Estimator]:
    """All estimators on one run, in the order of :data:`ESTIMATORS`; what was not measured is NaN throughout.

    Options, weights and errors are those of :func:`effective_depth`.
    """
    last = float(curves.n_blocks - 1)
    estimator_of: dict[str, Estimator] = {}
    kl, overlap = partial(kl_depth, fraction=kl_fraction), partial(overlap_depth, threshold=overlap_threshold)
    criteria: tuple[tuple[Criterion, float, FloatArray, Locate, Locate], ...] = (
        ("cosine", 0.0, curves.cosine, cosine_depth, block_at),
        ("kl", kl_fraction, curves.kl, kl, block_input_at),
        ("overlap", overlap_threshold, curves.overlap, overlap, block_input_at),
    )
    for name, limit, values, locate, whole in criteria:
        weights, offset = curves.weights(name), blocks_done(f"interpolated_{name}")
        of = partial(Estimator, values, weights, limits=(0.0, last), curve=name, offset=offset)
        position, explain = partial(locate, interpolate=True), partial(crossing_reason, name, limit)
        estimator_of |= {
            name: of(position, explain=explain, whole=whole, published=locate, published_offset=blocks_done(name)),
            f"interpolated_{name}": of(position, explain=explain),
        }
    for token, depths in (("settle", curves.settle_depth), ("prediction", curves.prediction_depth)):
        token_depths = np.full(len(curves.n_tokens), np.nan) if depths is None else depths
        why_none, limits = partial(_token_reason, token, depths is not None), (0.0, float(curves.n_blocks))
        # Each prompt counts the same, because the verdict reads these.
        estimator_of[token] = Estimator(
            token_depths[:, None], np.ones(len(curves.n_tokens)), only_entry, limits, curve=token, explain=why_none
        )
    effect = curves.effect_future
    estimator_of["centre_of_mass"] = Estimator(
        np.full(curves.kl.shape, np.nan) if effect is None else layer_effect(effect),
        np.ones(len(curves.n_tokens)),
        centre_of_mass,
        (0.0, last),
        curve="effect",
        explain=partial(_effect_reason, effect is not None),
        offset=blocks_done("centre_of_mass"),
    )
    return {name: replace(estimator_of[name], cluster=curves.cluster) for name in ESTIMATORS}


def _token_reason(name: str, measured: bool, depth: FloatArray) -> str:
    return f"no prompt has a {name} depth" if measured else f"{name} depths of tokens were not measured"


def _effect_reason(measured: bool, effect: FloatArray) -> str:
    if not measured:
        return "future skip effects were not measured"
    if np.isnan(effect).all():
        return "no prompt has a future skip effect"
    if missing := int((~np.isfinite(effect)).sum()):
        return f"the future skip effect is not finite at {missing} of {effect.size} blocks"
    return "the future skip effect is zero at every block"
