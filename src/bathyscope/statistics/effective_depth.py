"""Effective depth of a model on a set of prompts, by seven estimators, each with a bootstrap interval.

Source: hu2025, Section 3 (the three criteria); csordas2025, depth score (centre of mass).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import OptionError
from bathyscope.statistics.bootstrap import bootstrap_interval, check_resampling, resample_counts
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
from bathyscope.statistics.reduce import weighted_mean

FloatArray = NDArray[np.float64]

ESTIMATORS = (
    "cosine",
    "kl",
    "overlap",
    "interpolated_cosine",
    "interpolated_kl",
    "interpolated_overlap",
    "centre_of_mass",
)


@dataclass(frozen=True)
class DepthInputs:
    """Per-prompt curves of one run: P prompts, L blocks. A prompt without a value has NaN and is left out.

    The cosines are indexed by block, KL and overlap by block input (boundaries 0 … L−1). Raises an
    OptionError where shapes do not fit or a token count is not positive.
    """

    cos_attn: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(a_l, h_l)."""
    cos_mlp: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(m_l, h_l + a_l)."""
    cos_block: FloatArray
    """``[P, L]``, mean over the prompt's tokens of cos(c_l, h_l)."""
    kl: FloatArray
    """``[P, L]``, mean over the prompt's tokens of KL(p_b‖p_L), nats."""
    overlap: FloatArray
    """``[P, L]``, mean over the prompt's tokens of the top-k overlap with p_L, a share."""
    n_tokens: FloatArray
    """``[P]``, token counts: the weights of the curves above."""
    effect_future: FloatArray | None = None
    """``[P, L, L]`` (skipped × block), relative changes; None where skip effects were not measured."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                object.__setattr__(self, field.name, np.asarray(value, dtype=np.float64))
        if self.cos_block.ndim != 2 or 0 in self.cos_block.shape:
            raise OptionError(
                f"cos_block has the shape {list(self.cos_block.shape)}; depth curves are [prompts, blocks], "
                "at least one of each."
            )
        n_prompts, n_blocks = self.cos_block.shape
        wanted = {"n_tokens": (n_prompts,), "effect_future": (n_prompts, n_blocks, n_blocks)}
        for field in fields(self):
            value, shape = getattr(self, field.name), wanted.get(field.name, (n_prompts, n_blocks))
            if value is not None and value.shape != shape:
                raise OptionError(
                    f"{field.name} has the shape {list(value.shape)}; with the {n_prompts} prompts and "
                    f"{n_blocks} blocks of cos_block it is {list(shape)}."
                )
        if not (np.isfinite(self.n_tokens) & (self.n_tokens > 0)).all():
            raise OptionError("n_tokens holds a count that is not positive; every prompt has at least one token.")


@dataclass(frozen=True)
class DepthEstimate:
    """One estimator's answer. NaN stands for what does not exist, and ``reason`` then says why."""

    depth: float
    """0-based block (cosine, centre of mass) or block input (kl, overlap)."""
    ratio: float
    """(depth + 1) / L."""
    ci_low: float
    """Lower end of the interval, in units of ``depth``; over the resamples that meet the criterion."""
    ci_high: float
    """Upper end."""
    crossing_share: float
    """Share of the resamples in which the criterion is met at all; NaN with fewer than two prompts."""
    reason: str = ""
    """Why there is no depth or no interval; empty where both exist."""


def effective_depth(
    curves: DepthInputs,
    resamples: int = 1000,
    level: float = 0.95,
    kl_fraction: float = KL_FRACTION,
    overlap_threshold: float = OVERLAP_THRESHOLD,
    seed: int = 0,
) -> dict[str, DepthEstimate]:
    """All estimators (keys and order of :data:`ESTIMATORS`) with intervals from resampling prompts.

    Curves are token-weighted over prompts (hu2025). The centre of mass is that of the prompt-weighted effect
    (csordas2025): what a prompt's tokens yield there is one summary, not a sum over them. Equal inputs and
    ``seed`` give equal results.

    Parameters
    ----------
    resamples
        Number of resamples, at least 1.
    level
        Wanted coverage of the intervals, in (0, 1).
    kl_fraction
        Share of the largest KL below which the kl criterion is met, in (0, 1].
    overlap_threshold
        Overlap above which the overlap criterion is met, in [0, 1).
    seed
        Seed of the resampling.

    Raises
    ------
    OptionError
        Where an option is out of its range.
    """
    check_resampling(resamples, level)
    whole: dict[str, DepthEstimate] = {}
    interpolated: dict[str, DepthEstimate] = {}
    for criterion in _criteria(curves, kl_fraction, overlap_threshold):
        means = _resample(criterion.values, curves.n_tokens, resamples, seed)
        position = _estimate(means, partial(criterion.locate, interpolate=True), criterion.explain, level)
        interpolated[f"interpolated_{criterion.name}"] = position
        whole[criterion.name] = _whole(position, float(criterion.locate(means.curve)), criterion.containing, means)
    effect = _resample(_effects(curves), np.ones(len(curves.n_tokens)), resamples, seed)
    why_none = partial(_effect_reason, curves.effect_future is not None)
    return whole | interpolated | {"centre_of_mass": _estimate(effect, centre_of_mass, why_none, level)}


class _Criterion(NamedTuple):
    """A per-prompt curve ``[P, L]`` and how a depth is read off its mean."""

    name: Criterion
    values: FloatArray
    locate: Callable[..., FloatArray]
    containing: Callable[[float], FloatArray]
    """The whole-numbered depth that belongs to an interpolated one."""
    explain: Callable[[FloatArray], str]


class _Means(NamedTuple):
    """Mean curve ``[L]``, resampled ones ``[resamples, L]`` (none from a single prompt), weights in use."""

    curve: FloatArray
    resampled: FloatArray
    weights: FloatArray


def _criteria(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> Iterator[_Criterion]:
    why = partial(crossing_reason, kl_fraction=kl_fraction, overlap_threshold=overlap_threshold)
    cosine = (curves.cos_attn + curves.cos_mlp + curves.cos_block) / 3
    kl = partial(kl_depth, fraction=kl_fraction)
    overlap = partial(overlap_depth, threshold=overlap_threshold)
    yield _Criterion("cosine", cosine, cosine_depth, block_at, partial(why, "cosine"))
    yield _Criterion("kl", curves.kl, kl, block_input_at, partial(why, "kl"))
    yield _Criterion("overlap", curves.overlap, overlap, block_input_at, partial(why, "overlap"))


def _effects(curves: DepthInputs) -> FloatArray:
    if curves.effect_future is None:
        return np.full(curves.kl.shape, np.nan)
    return layer_effect(curves.effect_future)


def _effect_reason(measured: bool, effect: FloatArray) -> str:
    if not measured:
        return "future skip effects were not measured"
    if np.isnan(effect).all():
        return "no prompt has a future skip effect"
    if missing := int((~np.isfinite(effect)).sum()):
        return f"the future skip effect is not finite at {missing} of {effect.size} blocks"
    return "" if effect.sum() > 0 else "the future skip effect is zero at every block"


def _resample(values: FloatArray, weights: FloatArray, resamples: int, seed: int) -> _Means:
    has_value = ~np.isnan(values).all(axis=1)
    values, weights = values[has_value], weights[has_value]
    curve = weighted_mean(values, weights)
    if len(weights) < 2:
        return _Means(curve, np.empty((0, values.shape[1])), weights)
    counts = resample_counts(len(weights), resamples, np.random.default_rng(seed))
    return _Means(curve, weighted_mean(values, counts * weights), weights)


def _estimate(
    means: _Means,
    locate: Callable[[FloatArray], FloatArray],
    explain: Callable[[FloatArray], str],
    level: float,
) -> DepthEstimate:
    """The depth ``locate`` reads off the mean curve, with its interval."""
    depth = float(locate(means.curve))
    n_prompts, n_blocks = len(means.weights), means.curve.size
    reasons = [explain(means.curve)]
    low, high, share = math.nan, math.nan, math.nan
    if n_prompts == 1:
        reasons.append("an interval needs at least two prompts with values, and there is one")
    elif n_prompts > 1:
        resampled = locate(means.resampled)
        low, high = bootstrap_interval(depth, resampled, means.weights, level=level, limits=(0.0, n_blocks - 1.0))
        share = float((~np.isnan(resampled)).mean())
        if math.isnan(low) and not math.isnan(depth):
            reasons.append("too few resamples meet the criterion for an interval")
    return DepthEstimate(depth, (depth + 1) / n_blocks, low, high, share, "; ".join(filter(None, reasons)))


def _whole(
    position: DepthEstimate, depth: float, containing: Callable[[float], FloatArray], means: _Means
) -> DepthEstimate:
    """The whole-numbered estimate: its interval is what the interpolated position's interval touches."""
    n_blocks = means.curve.size
    low = np.minimum(containing(position.ci_low), depth)
    high = np.maximum(np.minimum(containing(position.ci_high), n_blocks - 2), depth)
    return replace(position, depth=depth, ratio=(depth + 1) / n_blocks, ci_low=float(low), ci_high=float(high))
