"""Effective depth of a model on a set of prompts, by fifteen estimators, each with a bootstrap interval.

Three curves are read in four ways each (as published, interpolated, smoothed, change point), and three
numbers need no curve: settle depth and prediction depth of tokens, centre of mass of the skip effects.
Source: hu2025, Section 3 (the three criteria); csordas2025, depth score (centre of mass).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.statistics.bootstrap import IntArray, check_resampling
from bathyscope.statistics.change_point import change_point, change_point_reason
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
from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.estimate import DepthEstimate, Means, Scale, estimate, whole_estimate
from bathyscope.statistics.smoothing import falling_fit, loess_fit, rising_fit

FloatArray = NDArray[np.float64]
Locate = Callable[[FloatArray], FloatArray]

CURVES = ("cosine", "kl", "overlap")
READINGS = ("", "interpolated_", "smoothed_", "change_point_")
"""How a depth is read off a curve, as the estimator's name begins."""
ESTIMATORS = (
    *(f"{reading}{curve}" for reading in READINGS for curve in CURVES),
    "settle",
    "prediction",
    "centre_of_mass",
)


def blocks_done(estimator: str) -> float:
    """How many blocks are done at index 0 of an estimator, so that all stand on one scale, 0 … L.

    The last block that is counted is done: block l is l + 1. A position between blocks lies between their middles, and
    block l's middle is l + ½. A boundary is the number of blocks before it.
    """
    if estimator == "cosine":
        return 1.0
    return 0.5 if estimator.endswith(("cosine", "centre_of_mass")) else 0.0


class Whole(NamedTuple):
    """What makes an estimator whole-numbered."""

    locate: Locate
    """Mean curves ``[..., X]`` to whole-numbered depths ``[...]``, NaN where there is none."""
    containing: Callable[[ArrayLike], FloatArray]
    """The whole-numbered depths that belong to real-valued ones."""
    offset: float
    """Blocks done at the whole-numbered depth 0."""


@dataclass(frozen=True)
class Estimator:
    """One estimator on one run: what each prompt gives, and how a depth is read off the prompts' mean."""

    curve: str
    """What it is read off; estimators of one curve share values and weights."""
    values: FloatArray
    """``[P, X]``; a prompt that is NaN throughout has no value."""
    weights: FloatArray
    """``[P]``, positive: token counts, or ones."""
    locate: Locate
    """Mean curves ``[..., X]`` to real-valued depths ``[...]``, NaN where there is none."""
    explain: Callable[[FloatArray], str]
    """Why a mean curve ``[X]`` has no depth; empty where it has one."""
    last: int
    """The largest depth there is."""
    whole: Whole | None = None
    """For a whole-numbered estimator: how its depth is read off, and off the real-valued one."""
    offset: float = 0.0
    """Blocks done at the real-valued depth 0."""
    cluster: IntArray | None = None
    """``[P]``, prompts of one number are resampled as one; None where each stands alone."""
    grouped: bool = False
    """It chooses between places, so that resamples lie in groups (see ``bootstrap_interval``)."""

    def take(self, prompts: ArrayLike) -> Estimator:
        """The same estimator on some of the prompts, in the order of the given indices (or a mask)."""
        chosen = np.asarray(prompts)
        cluster = None if self.cluster is None else self.cluster[chosen]
        return replace(self, values=self.values[chosen], weights=self.weights[chosen], cluster=cluster)

    def means(self, resamples: int, seed: int) -> Means:
        """Mean and resampled means of what the prompts give, which estimators of one curve share."""
        return Means.of(self.values, self.weights, resamples, seed, self.cluster)

    def read(self, means: Means, n_blocks: int, level: float) -> DepthEstimate:
        """The depth with its interval, from the means of the estimator's values and weights."""
        scale = Scale(n_blocks, self.last, level, self.offset)
        found = estimate(means, self.locate, self.explain, scale, grouped=self.grouped)
        if self.whole is None:
            return found
        locate, containing, offset = self.whole
        return whole_estimate(found, float(locate(means.curve)), containing, n_blocks, offset)


def effective_depth(
    curves: DepthInputs,
    resamples: int = 1000,
    level: float = 0.95,
    kl_fraction: float = KL_FRACTION,
    overlap_threshold: float = OVERLAP_THRESHOLD,
    seed: int = 0,
) -> dict[str, DepthEstimate]:
    """All estimators (keys and order of :data:`ESTIMATORS`) with intervals from resampling prompts.

    Curves and token depths are token-weighted over prompts (hu2025). The centre of mass is that of the
    prompt-weighted effect (csordas2025): what a prompt's tokens yield there is one summary, not a sum over
    them. Equal inputs and ``seed`` give equal results.

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
    means: dict[str, Means] = {}
    found: dict[str, DepthEstimate] = {}
    for name, one in estimators(curves, kl_fraction, overlap_threshold).items():
        if one.curve not in means:
            means[one.curve] = one.means(resamples, seed)
        found[name] = one.read(means[one.curve], curves.n_blocks, level)
    return found


def estimators(
    curves: DepthInputs, kl_fraction: float = KL_FRACTION, overlap_threshold: float = OVERLAP_THRESHOLD
) -> dict[str, Estimator]:
    """All estimators on one run, in the order of :data:`ESTIMATORS`; what was not measured is NaN throughout.

    Options, weights and errors are those of :func:`effective_depth`.
    """
    last = curves.n_blocks - 1
    found: dict[str, Estimator] = {}
    for criterion in _criteria(curves, kl_fraction, overlap_threshold):
        found |= _of_curve(criterion, curves.weights(criterion.name), last)
    for name, depths in (("settle", curves.settle_depth), ("prediction", curves.prediction_depth)):
        values = np.full(len(curves.n_tokens), np.nan) if depths is None else depths
        why_none = partial(_token_reason, name, depths is not None)
        found[name] = Estimator(name, values[:, None], curves.weights(name), _only_entry, why_none, curves.n_blocks)
    why_none = partial(_effect_reason, curves.effect_future is not None)
    ones = np.ones(len(curves.n_tokens))
    mass = partial(Estimator, "effect", _effects(curves), ones, centre_of_mass, why_none, last)
    found["centre_of_mass"] = mass(offset=blocks_done("centre_of_mass"))
    return {name: replace(found[name], cluster=curves.cluster) for name in ESTIMATORS}


class _Criterion(NamedTuple):
    """A per-prompt curve ``[P, L]`` and how a depth is read off its mean."""

    name: Criterion
    values: FloatArray
    locate: Callable[..., FloatArray]
    containing: Callable[[ArrayLike], FloatArray]
    smooth: Locate
    explain: Callable[[FloatArray], str]


def _criteria(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> Iterator[_Criterion]:
    why = partial(crossing_reason, kl_fraction=kl_fraction, overlap_threshold=overlap_threshold)
    kl = partial(kl_depth, fraction=kl_fraction)
    overlap = partial(overlap_depth, threshold=overlap_threshold)
    yield _Criterion("cosine", curves.cosine, cosine_depth, block_at, loess_fit, partial(why, "cosine"))
    yield _Criterion("kl", curves.kl, kl, block_input_at, falling_fit, partial(why, "kl"))
    yield _Criterion("overlap", curves.overlap, overlap, block_input_at, rising_fit, partial(why, "overlap"))


def _of_curve(criterion: _Criterion, weights: FloatArray, last: int) -> dict[str, Estimator]:
    """The estimators of one curve."""
    name, explain, smooth = criterion.name, criterion.explain, criterion.smooth
    interpolated: Locate = partial(criterion.locate, interpolate=True)
    whole = Whole(criterion.locate, criterion.containing, blocks_done(name))
    of = partial(Estimator, name, criterion.values, weights, last=last, offset=blocks_done(f"interpolated_{name}"))
    return {
        name: of(locate=interpolated, explain=explain, whole=whole),
        f"interpolated_{name}": of(locate=interpolated, explain=explain),
        f"smoothed_{name}": of(
            locate=partial(_smoothed, smooth, interpolated), explain=partial(_smoothed, smooth, explain)
        ),
        f"change_point_{name}": of(locate=change_point, explain=partial(change_point_reason, name), grouped=True),
    }


def _smoothed(smooth: Locate, read: Callable[[FloatArray], Any], curve: FloatArray) -> Any:
    return read(smooth(curve))


def _only_entry(values: FloatArray) -> FloatArray:
    return values[..., 0]


def _token_reason(name: str, measured: bool, depth: FloatArray) -> str:
    if not measured:
        return f"{name} depths of tokens were not measured"
    return "" if np.isfinite(depth).all() else f"no prompt has a {name} depth"


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
