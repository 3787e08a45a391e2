"""Every estimator of effective depth as a reading: what each prompt gives, and the ratio read off the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bathyscope.statistics.change_point import change_point
from bathyscope.statistics.crossing import (
    block_at,
    block_input_at,
    centre_of_mass,
    cosine_depth,
    kl_depth,
    layer_effect,
    overlap_depth,
)
from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.difference import Reading
from bathyscope.statistics.effective_depth import ESTIMATORS
from bathyscope.statistics.smoothing import falling_fit, loess_fit, rising_fit

FloatArray = NDArray[np.float64]
Locate = Callable[[FloatArray], FloatArray]


def ratio_readings(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> dict[str, Reading]:
    """Name → reading of (depth + 1) / L, in the order of the estimators, for what the run has measured."""
    n_blocks = curves.n_blocks
    tokens, ones = curves.n_tokens, np.ones(len(curves.n_tokens))

    def reading(
        values: FloatArray, weights: FloatArray, locate: Locate, whole: Locate | None = None, last: int = n_blocks - 1
    ) -> Reading:
        limits = (1 / n_blocks, (last + 1) / n_blocks)
        rounded = None if whole is None else partial(_whole_ratio, containing=whole, n_blocks=n_blocks)
        return Reading(values, weights, partial(_ratio, locate=locate, n_blocks=n_blocks), limits, rounded)

    found = {
        name: reading(values, tokens, locate, whole)
        for name, values, locate, whole in _of_curves(curves, kl_fraction, overlap_threshold)
    }
    for name, depths in (("settle", curves.settle_depth), ("prediction", curves.prediction_depth)):
        if depths is not None:
            found[name] = reading(depths[:, None], tokens, _only_entry, last=n_blocks)
    if curves.effect_future is not None:
        found["centre_of_mass"] = reading(layer_effect(curves.effect_future), ones, centre_of_mass)
    return {name: found[name] for name in ESTIMATORS if name in found}


def _of_curves(
    curves: DepthInputs, kl_fraction: float, overlap_threshold: float
) -> Iterator[tuple[str, FloatArray, Locate, Locate | None]]:
    kl = partial(kl_depth, fraction=kl_fraction)
    overlap = partial(overlap_depth, threshold=overlap_threshold)
    for name, values, locate, containing, smooth in (
        ("cosine", curves.cosine, cosine_depth, block_at, loess_fit),
        ("kl", curves.kl, kl, block_input_at, falling_fit),
        ("overlap", curves.overlap, overlap, block_input_at, rising_fit),
    ):
        interpolated = partial(locate, interpolate=True)
        yield name, values, interpolated, containing
        yield f"interpolated_{name}", values, interpolated, None
        yield f"smoothed_{name}", values, partial(_after, smooth, interpolated), None
        yield f"change_point_{name}", values, change_point, None


def _after(smooth: Locate, locate: Locate, curve: FloatArray) -> FloatArray:
    return locate(smooth(curve))


def _only_entry(values: FloatArray) -> FloatArray:
    return values[..., 0]


def _ratio(mean: FloatArray, locate: Locate, n_blocks: int) -> FloatArray:
    return (locate(mean) + 1) / n_blocks


def _whole_ratio(ratio: FloatArray, containing: Locate, n_blocks: int) -> FloatArray:
    # a position on a block's edge must come back onto it from the ratio
    return (containing(np.round(ratio * n_blocks - 1, 9)) + 1) / n_blocks
