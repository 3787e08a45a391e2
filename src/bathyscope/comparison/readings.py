"""Every estimator of effective depth as a reading: what each prompt gives, and the ratio read off the mean."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.effective_depth import Estimator, Locate, Whole, estimators
from bathyscope.statistics.reading import Reading

FloatArray = NDArray[np.float64]


def ratio_readings(curves: DepthInputs, kl_fraction: float, overlap_threshold: float) -> dict[str, Reading]:
    """Name → reading of blocks done / L, in the order of the estimators."""
    found = estimators(curves, kl_fraction, overlap_threshold)
    return {name: ratio_reading(one, curves.n_blocks) for name, one in found.items()}


def ratio_reading(one: Estimator, n_blocks: int) -> Reading:
    """The reading of blocks done / L of one estimator."""
    limits = (one.offset / n_blocks, (one.last + one.offset) / n_blocks)
    whole = one.whole and partial(_whole_ratio, whole=one.whole, offset=one.offset, n_blocks=n_blocks)
    locate = partial(_ratio, locate=one.locate, offset=one.offset, n_blocks=n_blocks)
    return Reading(one.values, one.weights, locate, limits, whole, one.cluster)


def _ratio(mean: FloatArray, locate: Locate, offset: float, n_blocks: int) -> FloatArray:
    return (locate(mean) + offset) / n_blocks


def _whole_ratio(ratio: FloatArray, whole: Whole, offset: float, n_blocks: int) -> FloatArray:
    # a position on a block's edge must come back onto it from the ratio
    return (whole.containing(np.round(ratio * n_blocks - offset, 9)) + whole.offset) / n_blocks
