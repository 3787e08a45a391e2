"""Similarity of representations: unbiased HSIC between all pairs of boundaries, CKA, and its standard error.

With K̃, L̃ the linear Gram matrices of n points without their diagonals,

    HSIC₁(K,L) = [tr(K̃L̃) + (1ᵀK̃1)(1ᵀL̃1)/((n−1)(n−2)) − 2/(n−2)·1ᵀK̃L̃1] / (n(n−3))
               = ⟨U(K), U(L)⟩ / (n(n−3)),

where U(K) takes row and column means out of K̃ such that all its rows sum to 0 (Székely and Rizzo 2014). The product is
a sum over rows, so a few rows of U of all boundaries are in memory at a time, whatever the number of points is. What is
left without some points follows from the same rows: U(K) stands for K̃ in the first formula, and its rows lose what they
had in the columns that are left out. Minibatches are added before the ratio is taken:
CKA = Σ HSIC₁(K,L) / √(Σ HSIC₁(K,K) · Σ HSIC₁(L,L)). Source: lad2024, representational similarity; Nguyen et al. 2021.

Suffixes: A and B boundaries (of one model, or of two), N points, R some of them as rows, D width, G groups of points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

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
_ROWS_BYTES = 8 << 20
"""Rows of U of all boundaries that are in memory at a time, where one row alone is not larger."""


class BoundaryPoints(Protocol):
    """Points [points, width] of every boundary, each of which may be made when it is looked at."""

    def __len__(self) -> int: ...

    def __getitem__(self, boundary: int, /) -> NDArray[np.floating]: ...


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


def minibatch_sums(first: BoundaryPoints, second: BoundaryPoints, groups: Sequence[Sequence[int]]) -> HsicSums:
    """One minibatch's values, and their covariance by a jackknife that leaves one group of points out at a time.

    Args:
        first, second: the same points, :data:`FEWEST` at least, at the boundaries of either model; the same object for
            one model with itself. Where all points of a boundary are equal, its values are 0.
        groups: points that are independent of those of other groups, as indices, each point in one group at most; with
            a single group, or where too few points are left without one, the covariance is NaN.
    """
    n, m = len(first[0]), len(groups)
    group_N = np.full(n, m)
    for number, group in enumerate(groups):
        group_N[list(group)] = number
    sums = _RowSums(group_N, m, (len(first), len(second)))
    most_rows = max(1, _ROWS_BYTES // (8 * n * (len(first) + (0 if second is first else len(second)))))
    for rows in _pieces(np.argsort(group_N, kind="stable"), most_rows):
        sums.add(rows, *_rows_of_both(first, second, rows))
    values = sums.trace / (n * (n - 3))
    covariance = np.full((3, *values.shape), np.nan)
    if m > 1 and n - max(len(group) for group in groups) >= FEWEST:
        left = np.stack([sums.without(number) for number in range(m)])
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


class _RowSums:
    """What HSIC₁ of all points, and of those without each group, needs of U; its rows are added some at a time.

    Args:
        group_N: number of the group of each point; ``groups`` for a point of none.
        groups: how many there are.
        boundaries: A and B.
    """

    def __init__(self, group_N: NDArray[np.int64], groups: int, boundaries: tuple[int, int]) -> None:
        self._group_N = group_N
        self._groups = groups
        self.trace = np.zeros((3, *boundaries))
        """tr(UV) of all pairs, as ``_products`` has them."""
        self._lost_G = [np.zeros_like(self.trace) for _ in range(groups)]
        """What of it is in rows or columns of each group."""
        self._columns_G = [[np.zeros((count, len(group_N))) for count in boundaries] for _ in range(groups)]
        """The sums of the rows of each group, [A, N] and [B, N]."""

    def add(self, rows: NDArray[np.int64], first_ARN: Array, second_BRN: Array) -> None:
        """Add some rows of U of all boundaries; one array for one model with itself."""
        for number in np.unique(self._group_N[rows]):
            of_group_R = self._group_N[rows] == number
            first_part = first_ARN[:, of_group_R]
            second_part = first_part if second_BRN is first_ARN else second_BRN[:, of_group_R]
            trace = _products(first_part, second_part)
            self.trace += trace
            if number == self._groups:
                continue
            # U is symmetric: rows and columns have the same, and what is in both is counted once
            inside_N = self._group_N == number
            self._lost_G[number] += 2 * trace - _products(first_part[..., inside_N], second_part[..., inside_N])
            for columns, part in zip(self._columns_G[number], (first_part, second_part), strict=True):
                columns += part.sum(1)

    def without(self, number: int) -> Array:
        """HSIC₁ of the points that are left without a group, [3, A, B].

        All rows of U sum to 0. So each row that is left sums to minus what it has in the columns of the group, and all
        of these together to what the group has inside.
        """
        remaining_N = self._group_N != number
        n = int(remaining_N.sum())
        sums = _products(*(columns[:, remaining_N] for columns in self._columns_G[number]))
        totals = _products(*(columns[:, ~remaining_N].sum(1) for columns in self._columns_G[number]))
        trace = self.trace - self._lost_G[number]
        left: Array = (trace + totals / ((n - 1) * (n - 2)) - 2 / (n - 2) * sums) / (n * (n - 3))
        return left


def _pieces(points: NDArray[np.int64], most: int) -> Iterator[NDArray[np.int64]]:
    yield from np.array_split(points, -(-len(points) // most))


def _rows_of_both(first: BoundaryPoints, second: BoundaryPoints, rows: NDArray[np.int64]) -> tuple[Array, Array]:
    first_ARN = _rows_of_all(first, rows)
    return first_ARN, first_ARN if second is first else _rows_of_all(second, rows)


def _rows_of_all(points: BoundaryPoints, rows: NDArray[np.int64]) -> Array:
    """Some rows of U of every boundary, [A, R, N]."""
    rows_ARN = np.empty((len(points), len(rows), len(points[0])))
    for boundary, rows_RN in enumerate(rows_ARN):
        rows_RN[:] = _rows_of(np.asarray(points[boundary], dtype=np.float64), rows)
    return rows_ARN


def _rows_of(points_ND: Array, rows: NDArray[np.int64]) -> Array:
    """Some rows of U(K) of one boundary, [R, N]; 0 throughout where all points are equal."""
    n = len(points_ND)
    # HSIC₁ does not depend on the origin; near the points it loses fewer digits
    centred_ND = points_ND - points_ND.mean(0)
    if np.linalg.norm(centred_ND) <= _EQUAL * np.linalg.norm(points_ND):
        return np.zeros((len(rows), n))
    # Sums of rows of the Gram matrix without its diagonal, which need not be there for them.
    sums_N = centred_ND @ centred_ND.sum(0) - np.einsum("nd,nd->n", centred_ND, centred_ND)
    means_N, mean = sums_N / (n - 2), sums_N.sum() / ((n - 1) * (n - 2))
    rows_RN: Array = centred_ND[rows] @ centred_ND.T
    rows_RN -= means_N[rows, None]
    rows_RN -= means_N
    rows_RN += mean
    rows_RN[np.arange(len(rows)), rows] = 0
    return rows_RN


def _products(first: Array, second: Array) -> Array:
    """Products of all pairs of boundaries, and of each boundary with itself, [3, A, B]."""
    first_AK, second_BK = first.reshape(len(first), -1), second.reshape(len(second), -1)
    with_itself = [np.einsum("ak,ak->a", side_AK, side_AK) for side_AK in (first_AK, second_BK)]
    pairs = first_AK @ second_BK.T
    return np.stack(np.broadcast_arrays(pairs, with_itself[0][:, None], with_itself[1][None, :]))
