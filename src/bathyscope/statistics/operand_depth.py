"""At which boundary does the input of a problem's j-th step leave its token, and does that grow with j?

A token's stream matters at a boundary as far as replacing it there (erasure, patching) changes the answer. It is *left*
at the first boundary after which less than a tenth of its largest effect remains. A model that works a problem off
step by step leaves later inputs later; one that reads all of them at once leaves all at one boundary.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.trend import Trend, trend

SHARE: Final = 0.9
"""Of the largest effect, by which it has fallen where a token is left."""
FLOOR: Final = 1e-6
"""Effects that are nowhere larger are rounding: the token is of no use at any boundary."""
HALF_WAY: Final = 0.5
"""From one answer to another, beyond which the other is nearer."""


def left_at(effect: ArrayLike) -> FloatArray:
    """Return the first boundary after which less than 1 − ``SHARE`` of the largest effect is left, 1 … L.

    Args:
        effect: [..., boundaries 0 … L]; NaN = not measured.

    Returns:
        [...], NaN where an effect is not known, none is larger than ``FLOOR``, and much of it is left at L.
    """
    values = np.asarray(effect, dtype=np.float64)
    most = values.max(-1)
    matters = values >= (1 - SHARE) * most[..., None]
    boundaries = values.shape[-1]
    # Counted from the end: the last boundary that still matters, plus one.
    boundary = boundaries - np.argmax(matters[..., ::-1], axis=-1)
    return np.where((most > FLOOR) & (boundary < boundaries), boundary, np.nan)


def arrived_at(recovered: ArrayLike) -> FloatArray:
    """Return the first boundary at which, as at all later ones, at least ``HALF_WAY`` is recovered, 0 … L.

    Args:
        recovered: [..., boundaries 0 … L], shares of the way from one answer to another; NaN = not measured.

    Returns:
        [...], NaN where less is recovered at L, or a share there is unknown.
    """
    values = np.asarray(recovered, dtype=np.float64)
    boundaries = values.shape[-1]
    # a share that is unknown is not half of the way
    short = ~(values >= HALF_WAY)
    last_short = boundaries - 1 - np.argmax(short[..., ::-1], axis=-1)
    boundary = np.where(short.any(-1), last_short + 1, 0)
    return np.where(boundary < boundaries, boundary, np.nan)


def operands_left_at(effect_PBT: ArrayLike, operands: Sequence[Sequence[int]]) -> FloatArray:
    """``left_at`` of every operand, [prompts, operands]; NaN where a prompt has fewer.

    Args:
        operands: of each prompt the tokens of the inputs of its steps, in the order of the steps.
    """
    effects = np.asarray(effect_PBT, dtype=np.float64)
    left_PJ = np.full((len(effects), max(map(len, operands), default=0)), np.nan)
    for left_J, effect_BT, tokens in zip(left_PJ, effects, operands, strict=True):
        left_J[: len(tokens)] = left_at(effect_BT[:, list(tokens)].T)
    return left_PJ


def operand_trend(left_PJ: ArrayLike, *, cluster: IntArray | None = None, seed: int = 0) -> Trend:
    """Boundaries for each step by which later inputs are left later, within problems, with an interval by problems.

    Scores and steps are taken from their means in each problem, so that problems which are worked out deeper as a whole
    have no part in it; a problem is a cluster (``trend``), or problems of one number in ``cluster`` [prompts].
    """
    left = np.asarray(left_PJ, dtype=np.float64)
    has_value = ~np.isnan(left)
    problem, step = np.nonzero(has_value & (has_value.sum(1, keepdims=True) > 1))
    scores, steps = left[problem, step], step.astype(np.float64)
    if problem.size:
        counts = np.maximum(np.bincount(problem), 1)

        def within_problem(values: FloatArray) -> FloatArray:
            return np.asarray(values - (np.bincount(problem, weights=values) / counts)[problem])

        scores, steps = within_problem(scores), within_problem(steps)
    return trend(scores, steps, cluster=problem if cluster is None else cluster[problem], seed=seed)
