"""The mean of a curve over prompts, and how far prompts spread around it.

Suffixes: P prompts, X places along the depth axis, R resamples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.report.figures.options import FigureOptions
from bathyscope.statistics.bootstrap import bootstrap_interval, resample_counts
from bathyscope.statistics.reduce import weighted_mean

RESAMPLES: Final = 1000
LEVEL: Final = 0.95
_SEED: Final = 0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean (X,) over prompts with the band's edges (X,), or no band for a single prompt."""

    mean: Array
    low: Array | None
    high: Array | None


def summarise(values: ArrayLike, weights: ArrayLike, options: FigureOptions) -> Summary:
    """Weighted mean over prompts and the band around it; missing values are left out place by place.

    Args:
        values: (P, X), one curve per prompt, NaN where a prompt has no value.
        weights: (P,), the tokens behind each prompt's value; for ``weighting="prompts"`` only whether there are
            any counts.
        options: gives the weighting and the kind of band.
    """
    values_PX: Array = np.asarray(values, dtype=np.float64)
    weights_P: Array = np.maximum(np.asarray(weights, dtype=np.float64), 0.0)
    if options.weighting == "prompts":
        weights_P = np.sign(weights_P)
    mean_X = weighted_mean(values_PX, weights_P)
    kept_P = (weights_P > 0) & np.isfinite(values_PX).any(axis=1)
    if options.band == "none" or kept_P.sum() < 2:
        return Summary(mean_X, None, None)
    values_PX, weights_P = values_PX[kept_P], weights_P[kept_P]
    if options.band == "quartiles":
        return Summary(mean_X, *_quartiles(values_PX))
    return Summary(mean_X, *_bootstrap(mean_X, values_PX, weights_P))


def _bootstrap(mean_X: Array, values_PX: Array, weights_P: Array) -> tuple[Array, Array]:
    # The same draws at every call: the curves of a figure are resampled alike, and a figure never changes
    # from one drawing to the next.
    counts_RP = resample_counts(len(values_PX), RESAMPLES, np.random.default_rng(_SEED))
    means_RX = weighted_mean(values_PX, counts_RP * weights_P)
    ends = [
        bootstrap_interval(mean, resampled_R, weights_P, level=LEVEL)
        for mean, resampled_R in zip(mean_X, means_RX.T)
    ]
    return np.array([end.low for end in ends]), np.array([end.high for end in ends])


def _quartiles(values_PX: Array) -> tuple[Array, Array]:
    """First and third quartile, NaN where no prompt has a value (numpy would warn there)."""
    out = np.full((2, values_PX.shape[1]), np.nan)
    filled_X = np.isfinite(values_PX).any(axis=0)
    out[:, filled_X] = np.nanquantile(values_PX[:, filled_X], [0.25, 0.75], axis=0)
    return out[0], out[1]


def describe(options: FigureOptions, prompts: int) -> str:
    """One sentence for the caption: what line and band are."""
    mean = (
        "Lines: means over all tokens of all prompts (each token counts the same)"
        if options.weighting == "tokens"
        else "Lines: means over prompts (each prompt counts the same)"
    )
    if prompts < 2:
        return f"{mean}; one prompt, so no band."
    band = {
        "bootstrap": f"; bands: {LEVEL:.0%} bootstrap interval of the mean, resampling prompts",
        "quartiles": "; bands: quartiles of the prompts",
        "none": "",
    }[options.band]
    return f"{mean}{band}."
