"""Means over prompts: token-weighted or prompt-weighted, for one set of weights or many resamples at once."""

import math

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Weighted mean over the first axis, leaving out what is NaN.

    Args:
        values: ``[prompts, ...]``; NaN marks a prompt (or one entry of it) without a value, for example a prompt too
            short for any skip position. A NaN entry takes its weight out of that entry's mean.
        weights: ``[prompts]`` or ``[resamples, prompts]``, finite and not negative.

    Returns:
        ``[...]`` or ``[resamples, ...]``; NaN where no prompt of positive weight has a value, or one has an infinite
        value. All resamples are one matrix product.
    """
    values = np.asarray(values, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    finite = np.isfinite(flat)
    if finite.all():
        total, mass = weights @ flat, weights.sum(axis=-1, keepdims=True)
    else:
        mass = weights @ (~np.isnan(flat)).astype(np.float64)
        total = weights @ np.where(finite, flat, 0.0)
        total = np.where(weights @ np.isinf(flat).astype(np.float64) > 0, np.nan, total)
    mean = np.divide(total, mass, out=np.full_like(total, np.nan), where=mass > 0)
    return mean.reshape(weights.shape[:-1] + values.shape[1:])
