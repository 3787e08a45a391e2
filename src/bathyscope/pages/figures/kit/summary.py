"""The mean of a curve over prompts, and the spread of prompts around it.

Suffixes: P prompts, X places along the depth axis, R resamples.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.text import level_text
from bathyscope.labels import token_weights
from bathyscope.pages.figures.options import FigureOptions, RunOptions
from bathyscope.prompts.parts import resampled
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling

LEVEL: Final = 0.95
_MANY: Final = 6
"""From this many prompts on, their range contains the population mean at ``LEVEL``."""

Weighting = Literal["tokens", "prompts"]


@dataclass(frozen=True)
class Summary:
    """Mean (X,) over prompts with the edges (X,) of its band; no band for a single prompt."""

    mean: FloatArray
    low: FloatArray | None
    high: FloatArray | None


def weights_of(dataset: xr.Dataset, name: str, options: FigureOptions) -> FloatArray:
    """Return what each prompt's value of a variable weighs, [P]: its tokens, or 1 where it has any."""
    tokens = np.asarray(token_weights(dataset, name), dtype=np.float64)
    return tokens if options.weighting == "tokens" else np.sign(tokens)


def summarise(
    values: ArrayLike,
    weights: ArrayLike,
    options: FigureOptions,
    cluster: IntArray | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Summary:
    """Return the weighted mean over prompts and its band; missing values are ignored place by place.

    Args:
        values: (P, X), one curve for each prompt, NaN where a prompt has no value.
        weights: (P,), the tokens behind each prompt's value; ``weighting="prompts"`` only asks whether there are any.
        options: weighting and kind of band.
        cluster: (P,), prompts with one number are resampled as one; None = each by itself.
        limits: smallest and largest possible mean; intervals are cut to them.
    """
    values_PX: FloatArray = np.asarray(values, dtype=np.float64)
    weights_P: FloatArray = np.maximum(np.asarray(weights, dtype=np.float64), 0.0)
    if options.weighting == "prompts":
        weights_P = np.sign(weights_P)
    mean_X = weighted_mean(values_PX, weights_P)
    kept_P = (weights_P > 0) & np.isfinite(values_PX).any(axis=1)
    if options.band == "none" or kept_P.sum() < 2:
        return Summary(mean_X, None, None)
    values_PX, weights_P = values_PX[kept_P], weights_P[kept_P]
    if options.band == "quartiles":
        return Summary(mean_X, *_compute_quantiles(values_PX, 0.25, 0.75))
    cluster_P = None if cluster is None else cluster[kept_P]
    # Resampling a single cluster gives the same mean every time: a band of no width would look precise.
    if cluster_P is not None and np.unique(cluster_P).size < 2:
        return Summary(mean_X, None, None)
    # The same intervals as in the verdict and the strip of blocks: a mean has one interval on the whole page.
    seed = options.seed if isinstance(options, RunOptions) else 0
    sampling = Sampling(level=LEVEL, seed=seed, cluster=cluster_P)
    intervals = mean_intervals(values_PX, sampling, limits=limits, weights=weights_P)
    low_X, high_X = np.array(intervals).T
    return Summary(mean_X, low_X, high_X)


def _compute_quantiles(values_NX: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Return quantiles over the first axis, NaN for empty places (numpy would warn there)."""
    out = np.full((2, values_NX.shape[1]), np.nan)
    filled_X = np.isfinite(values_NX).any(axis=0)
    out[:, filled_X] = np.nanquantile(values_NX[:, filled_X], [low, high], axis=0)
    return out[0], out[1]


def describe(options: FigureOptions, prompts: int, weighting: Weighting | None = None) -> str:
    """Write a sentence for the caption on what lines and bands are.

    Args:
        weighting: overrides the options: ``"prompts"`` for values that are not means over tokens.
    """
    mean = (
        "Lines: means over all tokens of all prompts (each token counts the same)"
        if (weighting or options.weighting) == "tokens"
        else "Lines: means over prompts (each prompt counts the same)"
    )
    if prompts < 2:
        return f"{mean}; one prompt, so no band."
    units = resampled(options.cluster)
    band = {
        "bootstrap": f"; bands: {level_text(LEVEL)} bootstrap interval of the mean, resampling {units}",
        "quartiles": "; bands: quartiles of the prompts",
        "none": "",
    }[options.band]
    return f"{mean}{band}."


def describe_few(prompts: int) -> str:
    """Explain how little a percentile interval of few prompts is worth; empty for more prompts.

    Means of resamples never leave the range of the prompts. The population mean lies outside this range whenever all
    prompts fall on the same side of it: with n prompts once in 2^(n−1) cases, if both sides are equally likely.
    """
    if prompts >= _MANY:
        return ""
    return (
        f" (no wider than the range of these {prompts} prompts, so it contains the mean of many prompts in at most "
        f"{1 - 2.0 ** (1 - prompts):.0%} of cases)"
    )
