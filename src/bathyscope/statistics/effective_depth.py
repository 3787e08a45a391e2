"""Effective depth of a model on a set of prompts, by fifteen estimators, each with a bootstrap interval.

Three curves are read in four ways each (as published, interpolated, smoothed, change point), and three
numbers need no curve: settle depth and prediction depth of tokens, centre of mass of the skip effects.
Source: hu2025, Section 3 (the three criteria); csordas2025, depth score (centre of mass).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.statistics.bootstrap import check_resampling
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

CURVES = ("cosine", "kl", "overlap")
READINGS = ("", "interpolated_", "smoothed_", "change_point_")
"""How a depth is read off a curve, as the estimator's name begins."""
ESTIMATORS = (
    *(f"{reading}{curve}" for reading in READINGS for curve in CURVES),
    "settle",
    "prediction",
    "centre_of_mass",
)


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
    means = partial(Means.of, resamples=resamples, seed=seed)
    blocks = Scale(curves.n_blocks, curves.n_blocks - 1, level)
    found: dict[str, DepthEstimate] = {}
    for criterion in _criteria(curves, kl_fraction, overlap_threshold):
        found |= _read(criterion, means(criterion.values, curves.n_tokens), blocks)
    boundaries = blocks._replace(last=curves.n_blocks)
    for name, depths in (("settle", curves.settle_depth), ("prediction", curves.prediction_depth)):
        values = np.full(len(curves.n_tokens), np.nan) if depths is None else depths
        why_none = partial(_token_reason, name, depths is not None)
        found[name] = estimate(means(values[:, None], curves.n_tokens), _only_entry, why_none, boundaries)
    effect = means(_effects(curves), np.ones(len(curves.n_tokens)))
    why_none = partial(_effect_reason, curves.effect_future is not None)
    found["centre_of_mass"] = estimate(effect, centre_of_mass, why_none, blocks)
    return {name: found[name] for name in ESTIMATORS}


class _Criterion(NamedTuple):
    """A per-prompt curve ``[P, L]`` and how a depth is read off its mean."""

    name: Criterion
    values: FloatArray
    locate: Callable[..., FloatArray]
    containing: Callable[[float], FloatArray]
    """The whole-numbered depth that belongs to an interpolated one."""
    smooth: Callable[[FloatArray], FloatArray]
    explain: Callable[[FloatArray], str]


def _criteria(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> Iterator[_Criterion]:
    why = partial(crossing_reason, kl_fraction=kl_fraction, overlap_threshold=overlap_threshold)
    kl = partial(kl_depth, fraction=kl_fraction)
    overlap = partial(overlap_depth, threshold=overlap_threshold)
    yield _Criterion("cosine", curves.cosine, cosine_depth, block_at, loess_fit, partial(why, "cosine"))
    yield _Criterion("kl", curves.kl, kl, block_input_at, falling_fit, partial(why, "kl"))
    yield _Criterion("overlap", curves.overlap, overlap, block_input_at, rising_fit, partial(why, "overlap"))


def _read(criterion: _Criterion, means: Means, scale: Scale) -> dict[str, DepthEstimate]:
    """The estimators of one curve."""
    name, explain = criterion.name, criterion.explain
    interpolated = partial(criterion.locate, interpolate=True)
    position = estimate(means, interpolated, explain, scale)
    depth = float(criterion.locate(means.curve))
    why_none = partial(change_point_reason, name)
    return {
        name: whole_estimate(position, depth, criterion.containing, scale.n_blocks),
        f"interpolated_{name}": position,
        f"smoothed_{name}": estimate(means.fitted(criterion.smooth), interpolated, explain, scale),
        f"change_point_{name}": estimate(means, change_point, why_none, scale, grouped=True),
    }


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
