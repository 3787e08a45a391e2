"""Similarity of representations: unbiased HSIC between all pairs of boundaries, CKA, and its standard error.

With K̃, L̃ the linear Gram matrices of n points without their diagonals,

    HSIC₁(K,L) = [tr(K̃L̃) + (1ᵀK̃1)(1ᵀL̃1)/((n−1)(n−2)) − 2/(n−2)·1ᵀK̃L̃1] / (n(n−3))
               = ⟨U(K), U(L)⟩ / (n(n−3)),

where U(K) takes row and column means out of K̃ such that all its rows sum to 0 (Székely and Rizzo 2014). So the
values of all pairs are one matrix product of the flattened U. Minibatches are added before the ratio is taken:
CKA = Σ HSIC₁(K,L) / √(Σ HSIC₁(K,K) · Σ HSIC₁(L,L)). Source: lad2024, representational similarity; Nguyen et al. 2021.

Suffixes: A and B boundaries (of one model, or of two), N points, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

FEWEST = 4
"""Points that unbiased HSIC needs at least."""

# Below this share of the points' size, what is left after centring is rounding.
_EQUAL = 1e-12
_CERTAIN = 1 - 1e-12
"""From here on a ratio is 1 but for rounding."""


@dataclass(frozen=True)
class HsicSums:
    """Sums over minibatches, for every pair of boundaries; sums of disjoint minibatches are added.

    Args:
        values: HSIC₁ of the pair, of the first boundary with itself, of the second with itself: [3, A, B].
        covariance: sampling covariance of these three, [3, 3, A, B]; NaN where it cannot be told.
        degrees_of_freedom: behind the covariance.
    """

    values: Array
    covariance: Array
    degrees_of_freedom: int

    def __add__(self, other: HsicSums) -> HsicSums:
        return HsicSums(
            self.values + other.values,
            self.covariance + other.covariance,
            self.degrees_of_freedom + other.degrees_of_freedom,
        )


@dataclass(frozen=True)
class CkaEstimate:
    """CKA of every pair of boundaries, [A, B], with a confidence interval.

    Unbiased estimates may leave 0 … 1 a little. NaN where all points of a boundary are equal; the interval is NaN
    where there are too few points for one.
    """

    values: Array
    low: Array
    high: Array


def gram(points_ND: NDArray[np.floating]) -> Array:
    """U(K) of one boundary, [N, N] float64: the Gram matrix without its diagonal and with rows that sum to 0.

    0 throughout where all points are equal; there are at least :data:`FEWEST`.
    """
    points = np.asarray(points_ND, dtype=np.float64)
    # HSIC₁ does not depend on the origin; near the points it loses fewer digits
    centred = points - points.mean(0)
    if np.linalg.norm(centred) <= _EQUAL * np.linalg.norm(points):
        return np.zeros((len(points), len(points)))
    return _take_means_out(centred @ centred.T)


def hsic(first_ANN: Array, second_BNN: Array) -> Array:
    """HSIC₁ of all pairs, [A, B], from what ``gram`` gives for every boundary."""
    n = first_ANN.shape[-1]
    product: Array = first_ANN.reshape(len(first_ANN), -1) @ second_BNN.reshape(len(second_BNN), -1).T
    return product / (n * (n - 3))


def minibatch_sums(first_ANN: Array, second_BNN: Array, groups: Sequence[Sequence[int]]) -> HsicSums:
    """One minibatch's values, and their covariance by a jackknife that leaves one group of points out at a time.

    Args:
        first_ANN, second_BNN: what ``gram`` gives for every boundary; the same array for one model with itself.
        groups: points that are independent of those of other groups, as indices; with a single group, or where too
            few points are left without one, the covariance is NaN.
    """
    values = _three(first_ANN, second_BNN)
    covariance = np.full((3, *values.shape), np.nan)
    n, m = first_ANN.shape[-1], len(groups)
    if m > 1 and n - max(len(group) for group in groups) >= FEWEST:
        left = np.stack([_left_out(first_ANN, second_BNN, group) for group in groups])
        deviation = left - left.mean(0)
        # The delete-one-group jackknife: how the sums move when each group of points is left out in turn.
        covariance = (m - 1) / m * np.einsum("gkab,glab->klab", deviation, deviation)
    return HsicSums(values, covariance, max(m - 1, 0))


def cka(sums: HsicSums, level: float = 0.95) -> CkaEstimate:
    """The ratio of the sums, with Student's interval of its z = artanh(ratio), by linearisation around the sums.

    A ratio lies between −1 and 1, as a correlation does, and so does an interval that is made of Fisher's z: near 1 it
    is as long below as above on that scale alone.
    """
    pair, first, second = sums.values[0], *np.where(sums.values[1:] > 0, sums.values[1:], np.nan)
    size = np.sqrt(first * second)
    ratio = pair / size
    # The ratio's derivative in each of the three sums, for the delta method.
    gradient = np.stack([1 / size, -ratio / (2 * first), -ratio / (2 * second)])
    variance = np.einsum("kab,klab,lab->ab", gradient, sums.covariance, gradient)
    quantile = float(stats.t.ppf((1 + level) / 2, sums.degrees_of_freedom)) if sums.degrees_of_freedom else np.nan
    reach = quantile * np.sqrt(np.maximum(variance, 0.0))  # rounding may leave −1e-20 where it is 0
    # Rounding may leave a ratio of 1 + 1e-16; where it is 1, nothing of it is uncertain.
    inside = np.clip(ratio, -_CERTAIN, _CERTAIN)
    z, z_reach = np.arctanh(inside), reach / (1 - inside**2)
    low, high = np.tanh(z - z_reach), np.tanh(z + z_reach)
    certain = (np.abs(ratio) >= _CERTAIN) | (reach == 0)
    low, high = (np.where(certain & ~np.isnan(reach), ratio, end) for end in (low, high))
    return CkaEstimate(ratio, np.minimum(low, ratio), np.maximum(high, ratio))


def even_groups(n: int, most: int) -> list[list[int]]:
    """0 … n−1 as at most ``most`` groups of neighbours of nearly equal size, none of them empty."""
    return [part.tolist() for part in np.array_split(np.arange(n), min(n, most))]


def _three(first_ANN: Array, second_BNN: Array) -> Array:
    """[3, A, B]: the pairs' values, and each boundary's with itself."""
    n = first_ANN.shape[-1]
    with_itself = [np.einsum("aij,aij->a", k, k) / (n * (n - 3)) for k in (first_ANN, second_BNN)]
    return np.stack(np.broadcast_arrays(hsic(first_ANN, second_BNN), with_itself[0][:, None], with_itself[1][None, :]))


def _left_out(first_ANN: Array, second_BNN: Array, group: Sequence[int]) -> Array:
    first = _without(first_ANN, group)
    return _three(first, first if second_BNN is first_ANN else _without(second_BNN, group))


def _without(gram_ANN: Array, points: Sequence[int]) -> Array:
    """U(K) of the points that are left, which needs no more than U(K) of all: the means are removed again."""
    keep = np.setdiff1d(np.arange(gram_ANN.shape[-1]), points)
    left = np.empty((len(gram_ANN), len(keep), len(keep)))
    # boundary by boundary, since a dozen copies of all of them would be most of what CKA needs of memory
    for gram_NN, left_NN in zip(gram_ANN, left, strict=True):
        left_NN[:] = gram_NN[keep[:, None], keep]
        _take_means_out(left_NN)
    return left


def _take_means_out(gram_NN: Array) -> Array:
    """Return a matrix without its diagonal, its rows and columns summing to 0; in its own memory."""
    n = len(gram_NN)
    np.fill_diagonal(gram_NN, 0)
    rows = gram_NN.sum(-1, keepdims=True) / (n - 2)
    total = gram_NN.sum() / ((n - 1) * (n - 2))
    gram_NN -= rows
    gram_NN -= rows.T
    gram_NN += total
    np.fill_diagonal(gram_NN, 0)
    return gram_NN
