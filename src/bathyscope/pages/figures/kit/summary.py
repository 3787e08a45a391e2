"""The mean of a curve over prompts, and how far prompts spread around it.

Suffixes: P prompts, X places along the depth axis, R resamples.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.labels import token_weights
from bathyscope.pages.figures.options import FigureOptions, RunOptions
from bathyscope.prompts.parts import resampled
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling

LEVEL: Final = 0.95
_MANY: Final = 6
"""Prompts of which the range holds the mean of all like them at ``LEVEL``."""

Weighting = Literal["tokens", "prompts"]


@dataclass(frozen=True)
class Summary:
    """Mean (X,) over prompts with the band's edges (X,), or no band for a single prompt."""

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
    """Weighted mean over prompts and the band around it; missing values are left out place by place.

    Args:
        values: (P, X), one curve per prompt, NaN where a prompt has no value.
        weights: (P,), the tokens behind each prompt's value; for ``weighting="prompts"`` it only counts
            whether there are any.
        options: gives the weighting and the kind of band.
        cluster: (P,), prompts of one number are resampled as one; None = each for itself.
        limits: smallest and largest mean there can be; intervals are cut to them.
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
        return Summary(mean_X, *_quantiles(values_PX, 0.25, 0.75))
    cluster_P = None if cluster is None else cluster[kept_P]
    if cluster_P is not None and np.unique(cluster_P).size < 2:
        return Summary(mean_X, None, None)
    # the intervals of the verdict, and of blocks at a page's head: one mean has one interval wherever it stands
    seed = options.seed if isinstance(options, RunOptions) else 0
    sampling = Sampling(level=LEVEL, seed=seed, cluster=cluster_P)
    intervals = mean_intervals(values_PX, sampling, limits=limits, weights=weights_P)
    low_X, high_X = np.array(intervals).T
    return Summary(mean_X, low_X, high_X)


def _quantiles(values_NX: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Quantiles over the first axis, NaN where it holds nothing (numpy would warn there)."""
    out = np.full((2, values_NX.shape[1]), np.nan)
    filled_X = np.isfinite(values_NX).any(axis=0)
    out[:, filled_X] = np.nanquantile(values_NX[:, filled_X], [low, high], axis=0)
    return out[0], out[1]


def describe(options: FigureOptions, prompts: int, weighting: Weighting | None = None) -> str:
    """One sentence for the caption: what line and band are.

    Args:
        weighting: where a prompt's values are no means over its tokens, ``"prompts"``, whatever the options say.
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
        "bootstrap": f"; bands: {LEVEL:.0%} bootstrap interval of the mean, resampling {units}",
        "quartiles": "; bands: quartiles of the prompts",
        "none": "",
    }[options.band]
    return f"{mean}{band}."


def of_few(prompts: int) -> str:
    """What a percentile interval of few prompts is worth, to stand behind what it is called; empty for more.

    Means of resamples never leave the range of the prompts, and the mean of all like them lies outside of it wherever
    they are on one side of it together: of n prompts once in 2^(n−1), where either side is as likely.
    """
    if prompts >= _MANY:
        return ""
    return (
        f" (no wider than these {prompts} prompts lie apart, so that it holds what more of them would give in at most "
        f"{1 - 2.0 ** (1 - prompts):.0%} of cases)"
    )
