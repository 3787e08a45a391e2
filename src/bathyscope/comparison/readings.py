"""Every estimator of effective depth as a reading: what each prompt gives, and the ratio read off the mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.difference import Reading
from bathyscope.statistics.effective_depth import Estimator, Locate, estimators

FloatArray = NDArray[np.float64]


def ratio_readings(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> dict[str, Reading]:
    """Name → reading of (depth + 1) / L, in the order of the estimators."""
    found = estimators(curves, kl_fraction, overlap_threshold)
    return {name: ratio_reading(one, curves.n_blocks) for name, one in found.items()}


def ratio_reading(one: Estimator, n_blocks: int) -> Reading:
    """The reading of (depth + 1) / L of one estimator."""
    limits = (1 / n_blocks, (one.last + 1) / n_blocks)
    whole = one.whole and partial(_whole_ratio, containing=one.whole.containing, n_blocks=n_blocks)
    return Reading(one.values, one.weights, partial(_ratio, locate=one.locate, n_blocks=n_blocks), limits, whole)


def _ratio(mean: FloatArray, locate: Locate, n_blocks: int) -> FloatArray:
    return (locate(mean) + 1) / n_blocks


def _whole_ratio(ratio: FloatArray, containing: Callable[[ArrayLike], FloatArray], n_blocks: int) -> FloatArray:
    # a position on a block's edge must come back onto it from the ratio
    return (containing(np.round(ratio * n_blocks - 1, 9)) + 1) / n_blocks
