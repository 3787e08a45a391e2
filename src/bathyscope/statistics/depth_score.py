"""Depth score of a group of prompts with a bootstrap interval: where the blocks stand whose skipping matters.

d = Σ_s s·e_s / Σ_s e_s, s counted from 0, where e_s is what skipping block s changes. Source: csordas2025, depth
score.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import bootstrap_interval
from bathyscope.statistics.crossing import centre_of_mass, layer_effect
from bathyscope.statistics.sampling import Sampling, cluster_weights

_OVER_PROMPTS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda values: values.mean(axis=-1),
    "p95": lambda values: np.quantile(values, 0.95, axis=-1),
    "max": lambda values: values.max(axis=-1),
}
_CHUNK = 1 << 22
_USUAL: Final = Sampling()


@dataclass(frozen=True)
class DepthScoreEstimate:
    """A group's depth score. NaN stands for what does not exist, and ``reason`` then says why."""

    score: float = math.nan
    """0-based, possibly between two blocks."""
    ci_low: float = math.nan
    """Lower end of the interval (bootstrap over the prompts of the group)."""
    ci_high: float = math.nan
    """Upper end."""
    reason: str = ""
    """Why there is no score or no interval; empty where both exist."""


def depth_score(effect: ArrayLike, reduction: str, sampling: Sampling = _USUAL) -> DepthScoreEstimate:
    """The depth score of the prompts' effects, reduced over prompts first.

    The mean over prompts is what intervals are good at. A maximum over few prompts hangs on one of them, which
    resampling sees only in part: its interval is a rough one.

    Args:
        effect: ``[prompts, L, L]`` (skipped × block), effects on later blocks, of which e_s is the mean after the
            reduction over prompts; or ``[prompts, L]``, an output effect for each skipped block, e_s itself. A prompt
            with a NaN is left out.
        reduction: over prompts, for each entry: ``mean``, ``p95`` (linear quantile) or ``max``.
        sampling: of the prompts.
    """
    values = np.asarray(effect, dtype=np.float64)
    has_value = ~np.isnan(values).any(axis=tuple(range(1, values.ndim)))
    values, member = values[has_value], sampling.take(has_value).cluster
    n_prompts, n_blocks = values.shape[:2]
    if not n_prompts:
        return DepthScoreEstimate(reason="no prompt has an effect")
    curve: Callable[[FloatArray], FloatArray] = layer_effect if values.ndim == 3 else np.asarray
    reduce = _OVER_PROMPTS[reduction]
    by_entry = np.moveaxis(values, 0, -1)
    score = float(centre_of_mass(curve(reduce(by_entry))))
    if math.isnan(score):
        return DepthScoreEstimate(reason="the effect is zero at every block")
    weights = cluster_weights(np.ones(n_prompts), member)
    if weights.size == 1:
        what = "prompts" if member is None else "clusters"
        return DepthScoreEstimate(score, reason=f"an interval needs at least two {what}, and there is one")
    # A quantile or a maximum over prompts needs the drawn prompts themselves, not only how often each was drawn.
    rng = np.random.default_rng(sampling.seed)
    picked = rng.integers(weights.size, size=(sampling.resamples, weights.size))
    if member is None:
        pieces = np.array_split(picked, math.ceil(picked.size * math.prod(values.shape[1:]) / _CHUNK))
    else:  # clusters differ in size, and so do the resamples
        of_cluster = [np.flatnonzero(member == number) for number in np.unique(member)]
        pieces = [np.concatenate([of_cluster[place] for place in row])[None] for row in picked]
    resampled = [centre_of_mass(curve(np.moveaxis(reduce(by_entry[..., piece]), -1, 0))) for piece in pieces]
    low, high = bootstrap_interval(
        score, np.concatenate(resampled), weights, level=sampling.level, limits=(0.0, n_blocks - 1.0)
    )
    return DepthScoreEstimate(score, low, high)
