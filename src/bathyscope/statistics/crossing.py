"""Where a depth curve crosses its threshold: the three criteria of effective depth, and the centre of mass.

Two kinds of index occur. The cosine curve is indexed by **block**: entry l belongs to block l's contribution.
The logit-lens curves (KL, overlap) are indexed by **block input**: entry b is the residual stream entering
block b (boundary b), b = 0 … L−1; boundary L, where KL is 0 and overlap 1 by construction, is left out.

The depth functions take one curve ``[L]`` or a batch ``[..., L]`` and return ``[...]``: NaN where the
criterion is not met or the curve is not finite throughout. With ``interpolate=True`` the position is
real-valued: where the straight line between neighbouring entries meets the threshold, for the same crossing
as the whole number.

Source: hu2025, Section 3; csordas2025, depth score, for the centre of mass.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.arrays import FloatArray

Criterion = Literal["cosine", "kl", "overlap"]

KL_FRACTION = 0.5
OVERLAP_THRESHOLD = 0.3


def cosine_depth(cosine: ArrayLike, *, interpolate: bool = False) -> FloatArray:
    """The last block l ≤ L−2 with μ_l < 0 ≤ μ_{l+1}: after it, blocks strengthen the direction they find.

    ``cosine`` is ``[..., L]``: mean of cos(a_l, h_l), cos(m_l, h_l + a_l) and cos(c_l, h_l). Interpolated,
    the position lies between l and l+1.
    """
    curve = _curve(cosine)
    if curve.shape[-1] < 2:
        return np.full(curve.shape[:-1], np.nan)
    rises = (curve[..., :-1] < 0) & (curve[..., 1:] >= 0) & _is_finite(curve)
    block = rises.shape[-1] - 1 - rises[..., ::-1].argmax(axis=-1)
    met = np.asarray(rises.any(axis=-1))
    depth = block.astype(np.float64)
    if interpolate:
        below = _entry(curve, block)
        depth += _ratio(-below, _entry(curve, block + 1) - below, where=met)
    return np.where(met, depth, np.nan)


def kl_depth(kl: ArrayLike, *, fraction: float = KL_FRACTION, interpolate: bool = False) -> FloatArray:
    """The first block input b ≤ L−2 whose KL is below ``fraction``, in (0, 1], of the curve's maximum.

    ``kl`` is ``[..., L]``: KL(p_b‖p_L) in nats (any unit gives the same depth). A single high entry, KL_0 for
    example, raises the maximum and so moves the depth to the front. Interpolated, the position lies between
    b−1 and b, and is 0 where the curve begins below.
    """
    curve = _curve(kl)
    threshold = fraction * curve.max(axis=-1, keepdims=True)
    return _first_below_zero(curve - threshold, interpolate)


def overlap_depth(overlap: ArrayLike, *, threshold: float = OVERLAP_THRESHOLD, interpolate: bool = False) -> FloatArray:
    """The first block input b ≤ L−2 whose top-k overlap with the final prediction is above ``threshold``, in [0, 1).

    ``overlap`` is ``[..., L]``: shares in [0, 1]. Interpolated, the position lies between b−1 and b, and is 0
    where the curve begins above.
    """
    return _first_below_zero(threshold - _curve(overlap), interpolate)


def block_at(position: ArrayLike) -> FloatArray:
    """The whole-numbered cosine depth of an interpolated one: l for a position in (l, l+1], never below 0."""
    return np.maximum(np.ceil(position) - 1, 0.0)


def block_input_at(position: ArrayLike) -> FloatArray:
    """The whole-numbered kl or overlap depth of an interpolated one: b for one in [b−1, b), and 0 for 0."""
    position = np.asarray(position, dtype=np.float64)
    return np.where(position <= 0, 0.0, np.floor(position) + 1)


def layer_effect(effect: ArrayLike) -> FloatArray:
    """e_s = Σ_l E[s, l] / max(L−1−s, 1): the mean effect of skipping block s on the blocks after it.

    ``effect`` is ``[..., L, L]`` (skipped × block), relative changes of block contributions; returns
    ``[..., L]``. Source: csordas2025, depth score.
    """
    values = np.asarray(effect, dtype=np.float64)
    n_blocks = values.shape[-1]
    return values.sum(axis=-1) / np.maximum(n_blocks - 1 - np.arange(n_blocks), 1)


def centre_of_mass(effect_by_block: ArrayLike) -> FloatArray:
    """Σ_s s·e_s / Σ_s e_s with s counted from 0 (csordas2025 counts from 1, which gives one more).

    ``effect_by_block`` is ``[..., L]``, not negative: :func:`layer_effect` of E, or an output effect. NaN
    where it is zero at every block or not finite.
    """
    e = _curve(effect_by_block)
    total = np.asarray(e.sum(axis=-1))
    return _ratio(np.asarray(e @ np.arange(e.shape[-1])), total, where=total > 0, otherwise=np.nan)


def crossing_reason(criterion: Criterion, limit: float, curve: ArrayLike) -> str:
    """Why one curve ``[L]`` has no depth under ``criterion``, whose fraction or threshold is ``limit``, in words."""
    values = _curve(curve)
    if missing := int(np.isnan(values).sum()):
        return f"the {criterion} curve has no finite value at {missing} of {values.size} entries"
    if values.size < 2:
        return "the model has a single block, and a depth needs two"
    before, largest = values[:-1], values.max()
    if criterion == "overlap":
        return f"overlap never exceeds {limit:g} before the last block (highest there: {before.max():.2g})"
    if criterion == "kl":
        if largest <= 0:
            return "KL is zero at every block input"
        lowest = before.min() / largest
        return f"KL never falls below {limit:g} of its maximum before the last block (lowest there: {lowest:.2g} of it)"
    where = "only falls from positive to negative"
    if (values >= 0).all():
        where = "is nowhere below zero"
    elif (values < 0).all():
        where = "is below zero at every block"
    return f"no sign change from negative to positive: the mean cosine {where}"


def _first_below_zero(curve: FloatArray, interpolate: bool) -> FloatArray:
    if curve.shape[-1] < 2:
        return np.full(curve.shape[:-1], np.nan)
    below = (curve[..., :-1] < 0) & _is_finite(curve)
    index = below.argmax(axis=-1)
    depth = index.astype(np.float64)
    if interpolate:
        at = _entry(curve, index)
        before = _entry(curve, np.maximum(index - 1, 0))
        depth += _ratio(at, before - at, where=index > 0)
    return np.where(below.any(axis=-1), depth, np.nan)


def _curve(values: ArrayLike) -> FloatArray:
    curve = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(curve), curve, np.nan)


def _is_finite(curve: FloatArray) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(curve).all(axis=-1, keepdims=True))


def _entry(curve: FloatArray, index: NDArray[np.intp]) -> FloatArray:
    return np.take_along_axis(curve, index[..., None], axis=-1)[..., 0]


def _ratio(
    numerator: FloatArray, denominator: FloatArray, where: NDArray[np.bool_], otherwise: float = 0.0
) -> FloatArray:
    return np.divide(numerator, denominator, out=np.full(numerator.shape, otherwise), where=where)
