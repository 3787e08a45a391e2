"""HSIC and CKA: against loops over the definition, exact properties, and the interval against repeated samples."""

from __future__ import annotations

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from bathyscope.statistics import hsic as module
from bathyscope.statistics.hsic import HsicSums, cka, even_groups, minibatch_sums

Array = np.ndarray


def naive_hsic(k: Array, other: Array) -> float:
    """The definition, entry by entry: diagonals zeroed, traces and sums by loops."""
    n = len(k)
    trace = both = first = second = 0.0
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            trace += k[i, j] * other[j, i]
            first += k[i, j]
            second += other[i, j]
            for m in range(n):
                if m != j:
                    both += k[i, j] * other[j, m]
    return (trace + first * second / ((n - 1) * (n - 2)) - 2 / (n - 2) * both) / (n * (n - 3))


def naive_cka(firsts: list[Array], seconds: list[Array]) -> float:
    """Of minibatches of points."""
    pairs = [(x @ x.T, y @ y.T) for x, y in zip(firsts, seconds)]
    mixed = sum(naive_hsic(*pair) for pair in pairs)
    own = [sum(naive_hsic(pair[i], pair[i]) for pair in pairs) for i in (0, 1)]
    return mixed / float(np.sqrt(own[0] * own[1]))


def draws(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def values(first: Array, second: Array) -> Array:
    """HSIC of all pairs, [A, B]."""
    return minibatch_sums(first, second, [list(range(first.shape[1]))]).values[0]


def of(firsts: list[Array], seconds: list[Array]) -> HsicSums:
    """Sums over minibatches [A, N, D], each point a group of its own."""
    parts = [minibatch_sums(x, y, [[i] for i in range(len(x[0]))]) for x, y in zip(firsts, seconds)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_all_pairs_equal_loops_over_the_definition() -> None:
    first, second = draws(3, 9, 6), draws(4, 9, 11, seed=1) + 3.0
    got = values(first, second)
    for a, x in enumerate(first):
        for b, y in enumerate(second):
            assert got[a, b] == pytest.approx(naive_hsic(x @ x.T, y @ y.T), rel=1e-10, abs=1e-10)


def test_hsic_is_the_mean_over_all_ordered_fours_of_points() -> None:
    """What the sums are an unbiased estimate of: E[k(1,2)·(m(1,2) + m(3,4) − 2·m(1,3))], over distinct points."""
    x, y = draws(7, 3), draws(7, 5, seed=1)
    k, m = x @ x.T, y @ y.T
    fours = [k[a, b] * (m[a, b] + m[c, d] - 2 * m[a, c]) for a, b, c, d in permutations(range(7), 4)]
    assert values(x[None], y[None])[0, 0] == pytest.approx(float(np.mean(fours)), rel=1e-10)


def test_cka_of_minibatches_equals_loops() -> None:
    first, second = [draws(2, n, 5, seed=n) for n in (4, 9, 6)], [draws(3, n, 8, seed=n) ** 3 for n in (4, 9, 6)]
    got = cka(of(first, second)).values
    for a in range(2):
        for b in range(3):
            expected = naive_cka([x[a] for x in first], [y[b] for y in second])
            assert got[a, b] == pytest.approx(expected, abs=1e-10)


def test_a_representation_is_like_itself() -> None:
    points = draws(3, 12, 7)
    found = cka(of([points], [points]))
    np.testing.assert_allclose(np.diagonal(found.values), 1, atol=1e-12)
    np.testing.assert_allclose(found.values, found.values.T, atol=1e-12)
    # rounding of a variance that is 0
    np.testing.assert_allclose(np.diagonal(found.low), 1, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(found.high), 1, atol=1e-6)
    assert (np.abs(found.values[np.triu_indices(3, 1)]) < 0.5).all()


def test_rotation_scale_and_shift_do_not_matter() -> None:
    x, y = draws(12, 7), draws(12, 7, seed=1) + draws(12, 7)
    rotation = stats.ortho_group.rvs(7, random_state=3)
    moved = 0.01 * y @ rotation + 40.0
    plain, other = cka(of([x[None]], [y[None]])), cka(of([x[None]], [moved[None]]))
    assert other.values[0, 0] == pytest.approx(plain.values[0, 0], abs=1e-10)
    assert other.low[0, 0] == pytest.approx(plain.low[0, 0], abs=1e-8)
    stretched = y * np.linspace(0.1, 5, 7)
    assert abs(cka(of([x[None]], [stretched[None]])).values[0, 0] - plain.values[0, 0]) > 1e-3


def test_unrelated_representations_are_unlike_on_average() -> None:
    """The biased estimate would be near 1 with so many more channels than points."""
    ratios = [cka(of([draws(1, 10, 300, seed=2 * s)], [draws(1, 10, 300, seed=2 * s + 1)])).values for s in range(200)]
    spread = float(np.std(ratios))
    assert abs(float(np.mean(ratios))) < 3 * spread / np.sqrt(200)


def correlated(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two representations that share some of what they say."""
    shared = rng.normal(size=(n, 4))
    x = np.concatenate([shared, rng.normal(size=(n, 4))], axis=1)
    return x, np.concatenate([shared @ np.diag([2, 1, 1, 0.5]), 1.5 * rng.normal(size=(n, 3))], axis=1)


def test_intervals_hold_the_true_value_about_as_often_as_they_say() -> None:
    # Gaussian points: HSIC is the sum of squared covariances
    truth = (4 + 1 + 1 + 0.25) / np.sqrt(8 * (16 + 1 + 1 + 0.0625 + 3 * 1.5**4))
    rng = np.random.default_rng(0)
    held, widths, ratios = 0, [], []
    for _ in range(300):
        parts = []
        for _ in range(2):
            x, y = correlated(40, rng)
            parts.append(minibatch_sums(x[None], y[None], even_groups(40, 16)))
        found = cka(parts[0] + parts[1])
        held += bool(found.low[0, 0] <= truth <= found.high[0, 0])
        widths.append(float(found.high[0, 0] - found.low[0, 0]))
        ratios.append(float(found.values[0, 0]))
    assert float(np.mean(ratios)) == pytest.approx(truth, abs=0.03)
    assert 0.9 <= held / 300 <= 0.99
    assert float(np.mean(widths)) == pytest.approx(2 * 1.96 * float(np.std(ratios)), rel=0.25)


def naive_three(x: Array, y: Array) -> Array:
    """The definition for one pair of boundaries: the pair, and each of the two with itself."""
    k, m = x @ x.T, y @ y.T
    return np.array([naive_hsic(k, m), naive_hsic(k, k), naive_hsic(m, m)])


def naive_covariance(x_AND: Array, y_BND: Array, groups: list[list[int]]) -> Array:
    """A jackknife by hand: the definition again for the points that are left without each group."""
    found = np.empty((3, 3, len(x_AND), len(y_BND)))
    for a, b in np.ndindex(found.shape[2:]):
        left = []
        for group in groups:
            keep = [i for i in range(x_AND.shape[1]) if i not in group]
            left.append(naive_three(x_AND[a, keep], y_BND[b, keep]))
        deviation = np.stack(left) - np.mean(left, axis=0)
        found[:, :, a, b] = (len(groups) - 1) / len(groups) * deviation.T @ deviation
    return found


GROUPS = [[0, 5], [1, 2, 3], [4, 6, 7, 8]]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_groups_left_out_are_those_of_the_points(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows are in memory at a time, and whether groups end with them or not."""
    x, y = draws(2, 9, 6), draws(3, 9, 4, seed=1)
    monkeypatch.setattr(module, "_ROWS_BYTES", rows * 8 * 9 * 5)
    got = minibatch_sums(x, y, GROUPS)
    np.testing.assert_allclose(got.covariance, naive_covariance(x, y, GROUPS), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got.values[:, 1, 2], naive_three(x[1], y[2]), rtol=1e-9)
    assert got.degrees_of_freedom == 2


def test_points_of_no_group_are_never_left_out() -> None:
    x, groups = draws(2, 9, 6), [[0, 5], [3, 7]]
    got = minibatch_sums(x, x, groups)
    np.testing.assert_allclose(got.covariance, naive_covariance(x, x, groups), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got.values[:, 0, 1], naive_three(x[0], x[1]), rtol=1e-9)


def test_a_group_of_giants_moves_the_sums_as_the_definition_says() -> None:
    """As first tokens do in language models: without them next to nothing is left of the sums."""
    x = draws(2, 9, 6)
    x[:, GROUPS[0]] *= 1e3
    np.testing.assert_allclose(minibatch_sums(x, x, GROUPS).covariance, naive_covariance(x, x, GROUPS), rtol=1e-9)


class Halves:
    """Points in half of the precision, as those of a model, in which tracemalloc sees what is made of them."""

    def __init__(self, points_AND: Array) -> None:
        self._points_AND = points_AND.astype(np.float16)

    def __len__(self) -> int:
        return len(self._points_AND)

    def __getitem__(self, boundary: int) -> Array:
        return self._points_AND[boundary].astype(np.float64)


@pytest.mark.parametrize("sides", [1, 2])
def test_of_gram_matrices_some_rows_are_in_memory_at_a_time(sides: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together are larger than the states themselves, and a jackknife would copy them."""
    boundaries, n, width = 12, 384, 16
    points = [Halves(draws(boundaries, n, width, seed=side)) for side in range(sides)]
    monkeypatch.setattr(module, "_ROWS_BYTES", 1 << 19)
    tracemalloc.start()
    minibatch_sums(points[0], points[-1], even_groups(n, 16))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.3 * boundaries * n * n * 8


def test_where_there_is_no_interval() -> None:
    four = draws(1, 4, 6)
    found = cka(of([four], [four]))
    assert found.values[0, 0] == pytest.approx(1)
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).all()
    together = minibatch_sums(draws(1, 9, 6), draws(1, 9, 6), [list(range(9))])
    assert np.isnan(together.covariance).all()


@pytest.mark.filterwarnings("error")
def test_points_that_are_all_equal_are_like_nothing() -> None:
    same = np.repeat(draws(1, 6) * 1e3 + 0.1, 8, axis=0)
    assert (minibatch_sums(same[None], same[None], even_groups(8, 4)).values == 0).all()
    found = cka(of([np.stack([draws(8, 6), same])], [np.stack([draws(8, 6), same])]))
    assert np.isnan(found.values).tolist() == [[False, True], [True, True]]
    assert np.isnan(found.low[0, 1])


@pytest.mark.parametrize(
    ("n", "most", "sizes"), [(7, 3, [3, 2, 2]), (4, 16, [1, 1, 1, 1]), (129, 2, [65, 64]), (5, 1, [5])]
)
def test_even_groups(n: int, most: int, sizes: list[int]) -> None:
    groups = even_groups(n, most)
    assert [len(group) for group in groups] == sizes
    assert [i for group in groups for i in group] == list(range(n))
