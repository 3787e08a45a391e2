"""Shares of tokens that keep their final prediction, made up and read off by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def ramp(depth: float, n_blocks: int) -> np.ndarray:
    """Shares by boundary, [L + 1], of which half is reached after ``depth`` blocks (at most L − ½), NaN for NaN."""
    if math.isnan(depth):
        return np.full(n_blocks + 1, math.nan)
    shares = np.clip(0.5 + 0.5 * (np.arange(n_blocks + 1) - depth), 0, 1)
    shares[-1] = 1
    beyond = min(depth, n_blocks - 0.5) - (n_blocks - 1)
    if beyond > 0:
        # the last block is the steepest: from what is left of it to all
        shares[-2] = max(0.0, (0.5 - beyond) / (1 - beyond))
    return shares


def ramps(depths: Sequence[float] | np.ndarray, n_blocks: int) -> np.ndarray:
    """Shares of several prompts, [P, L + 1]."""
    return np.stack([ramp(float(depth), n_blocks) for depth in depths])


def half_by_hand(shares: np.ndarray, tokens: Sequence[float], quantile: float = 0.5) -> float:
    """Where the pooled share reaches a quantile, boundary after boundary; NaN without a prompt."""
    rows = [(row, weight) for row, weight in zip(shares, tokens) if not np.isnan(row).any()]
    if not rows:
        return math.nan
    total = sum(weight for _, weight in rows)
    before = 0.0
    for boundary in range(shares.shape[1]):
        share = sum(float(row[boundary]) * weight for row, weight in rows) / total
        if share >= quantile - 1e-9:
            if boundary == 0:
                return 0.0
            return boundary - 1 + min(1.0, max(0.0, (quantile - before) / (share - before)))
        before = share
    return math.nan
