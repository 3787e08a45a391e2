"""Change point: where one straight line through a depth curve gives way to another, by least squares.

Depth curves both bend (a KL that is level and then falls) and step (a cosine that turns positive within a
block). Two lines that meet put a step several blocks too early; two lines that need not meet find both, but
waver by blocks where the curve only bends. So the lines meet, unless letting them go leaves less than half of
the squared residual.

The first entry is left out: block input 0 is the embedding before any block, and block 0 writes on it alone,
so that a break there says nothing about depth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.arrays import FloatArray

FIRST: Final = 1
"""The first entry that is looked at."""
FEWEST: Final = 3
"""Entries on each side of the break; any two lie on a line."""
STEP_SHARE: Final = 0.5
"""Lines that need not meet are taken where they leave less than this share of the squared residual."""
_ROUNDING: Final = 1e-9


def change_point(curve: ArrayLike) -> FloatArray:
    """The position of the break, real-valued, in the curve's own index.

    A *bend* is where two lines meet, anywhere between entries; a *step* between entries k−1 and k is at k−½.
    Both are the global least-squares fits to entries 1 … L−1, with at least three entries on each side (an
    entry on which a bend lies counts on both).

    Args:
        curve: ``[L]`` or ``[..., L]``, indexed by block or block input.

    Returns:
        ``[...]``, from 3 to L−3; NaN where the curve is not finite throughout, has fewer than seven entries, or is a
        straight line from entry 1 on.
    """
    values = np.asarray(curve, dtype=np.float64)
    exists = _has_break(values)
    position = np.full(values.shape[:-1], np.nan)
    if exists.any():
        position[exists] = FIRST + _break(_without_line(values[exists, FIRST:]))
    return position


def change_point_reason(name: str, curve: ArrayLike) -> str:
    """Why one curve ``[L]`` has no change point, in plain words."""
    values = np.asarray(curve, dtype=np.float64)
    if missing := int((~np.isfinite(values)).sum()):
        return f"the {name} curve has no finite value at {missing} of {values.size} entries"
    if values.size < FIRST + 2 * FEWEST:
        return f"a change point needs at least {FIRST + 2 * FEWEST} blocks, and the model has {values.size}"
    return f"the {name} curve is a straight line, without a break"


class _Breaks(NamedTuple):
    """K places of the break among n entries, and the least-squares fit of two lines for each."""

    place: FloatArray
    """``[K]``"""
    design: FloatArray
    """``[K, n, C]``, the C coefficients' columns."""
    solve: FloatArray
    """``[K, C, n]``, its pseudo-inverse."""

    @classmethod
    def of(cls, place: FloatArray, *columns: FloatArray) -> _Breaks:
        """Breaks at ``place``; each coefficient's column is ``[K, n]``, or ``[n]`` for all places."""
        design = np.stack(np.broadcast_arrays(*columns), axis=-1)
        return cls(place, design, np.asarray(np.linalg.pinv(design), dtype=np.float64))

    def fit(self, curves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients ``[R, K, C]`` and explained squares ``[R, K]`` of curves ``[R, n]``."""
        found = np.tensordot(curves, self.solve, axes=(1, 2))
        return found, (found * np.tensordot(curves, self.design, axes=(1, 1))).sum(axis=-1)


@lru_cache(maxsize=16)
def _bends(entries: int) -> _Breaks:
    """Two lines that meet at an entry: offset, slope, change of slope."""
    x = np.arange(entries, dtype=np.float64)
    place = np.arange(FEWEST - 1, entries - FEWEST + 1, dtype=np.float64)
    return _Breaks.of(place, np.ones_like(x), x, np.maximum(x - place[:, None], 0.0))


@lru_cache(maxsize=16)
def _steps(entries: int) -> _Breaks:
    """Two lines fitted apart, before and after a gap between entries: offset and slope of each."""
    x = np.arange(entries, dtype=np.float64)
    place = np.arange(FEWEST, entries - FEWEST + 1, dtype=np.float64) - 0.5
    before = (x < place[:, None]).astype(np.float64)
    after = 1 - before
    return _Breaks.of(place, before, before * x, after, after * x)


def _break(bent: FloatArray) -> FloatArray:
    """The best bend or step of curves ``[R, n]`` without a linear part: ``[R]``."""
    bends, steps = _bends(bent.shape[1]), _steps(bent.shape[1])
    _, by_bend = bends.fit(bent)
    lines, by_step = steps.fit(bent)
    # The best two lines that meet either meet at an entry, or meet within a gap and are the best there anyway.
    meet = _meeting(lines, steps.place)
    by_bend = np.concatenate([by_bend, np.where(np.isnan(meet), -np.inf, by_step)], axis=1)
    place = np.concatenate([np.broadcast_to(bends.place, (len(bent), len(bends.place))), meet], axis=1)
    row, bend, step = np.arange(len(bent)), by_bend.argmax(axis=1), by_step.argmax(axis=1)
    total = (bent**2).sum(axis=1)
    left_by_bend, left_by_step = total - by_bend[row, bend], total - by_step[row, step]
    is_step = left_by_step < STEP_SHARE * left_by_bend - _ROUNDING * total
    return np.where(is_step, steps.place[step], place[row, bend])


def _meeting(lines: FloatArray, gap: FloatArray) -> FloatArray:
    """Where the lines on both sides of each gap meet, ``[R, K]``; NaN where that is outside the gap."""
    offset_before, slope_before, offset_after, slope_after = np.moveaxis(lines, -1, 0)
    turn = slope_before - slope_after
    meet = np.divide(offset_after - offset_before, turn, out=np.full(turn.shape, np.nan), where=turn != 0)
    return np.where(np.abs(meet - gap) <= 0.5, meet, np.nan)


def _has_break(values: FloatArray) -> NDArray[np.bool_]:
    """Long enough, finite throughout and, from entry 1 on, off its straight line by more than rounding."""
    finite = np.asarray(np.isfinite(values).all(axis=-1))
    if values.shape[-1] < FIRST + 2 * FEWEST:
        return np.zeros_like(finite)
    rest = np.where(finite[..., None], values[..., FIRST:], 0.0)
    size = np.abs(rest).max(axis=-1)
    return np.asarray(finite & (np.abs(_without_line(rest)).max(axis=-1) > _ROUNDING * size))


def _without_line(curves: FloatArray) -> FloatArray:
    """What is left of each curve when its one least-squares line is taken off."""
    x = np.arange(curves.shape[-1], dtype=np.float64)
    design = np.stack([np.ones_like(x), x], axis=-1)
    return curves - curves @ np.linalg.pinv(design).T @ design.T
