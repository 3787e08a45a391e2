"""Change points: planted breaks, and the global least-squares fit found by trying every place."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.change_point import STEP_SHARE, change_point, change_point_reason

X = np.arange(28.0)


def bend(at: float, x: np.ndarray = X) -> np.ndarray:
    return 6 - 0.05 * x - 0.4 * np.maximum(x - at, 0)


def step(first: int, x: np.ndarray = X) -> np.ndarray:
    return np.where(x < first, -0.1 - 0.01 * x, 0.2 + 0.02 * x)


@pytest.mark.parametrize("at", [3, 3.4, 9, 14.25, 20.5, 24.75, 25])
def test_a_planted_bend_is_found_where_it_is(at: float) -> None:
    for curve in (bend(at), -bend(at), 1e4 * bend(at) + 3e3):
        assert change_point(curve) == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize("first", [4, 5, 13, 20, 25])
def test_a_planted_step_is_found_between_its_entries(first: int) -> None:
    for curve in (step(first), -step(first), np.where(first > X, 0.0, 1.0)):
        assert change_point(curve) == first - 0.5


@pytest.mark.parametrize("planted", [bend(19.3), step(19)])
def test_noise_moves_a_planted_break_little(planted: np.ndarray) -> None:
    noise = np.random.default_rng(0).normal(scale=0.02, size=(300, 28))
    found = change_point(planted + noise)
    assert np.median(found) == pytest.approx(change_point(planted), abs=0.1)
    assert (np.abs(found - change_point(planted)) < 1).mean() > 0.99


def residual(columns: list[np.ndarray], curve: np.ndarray) -> float:
    design = np.stack(columns, axis=1)
    return float(((curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]) ** 2).sum())


def tried_everywhere(curve: np.ndarray) -> tuple[float, float, float, float]:
    """Position and squared residual of the best bend (to a hundredth) and of the best step."""
    x, y = np.arange(1.0, len(curve)), curve[1:]
    bends = {
        at: residual([np.ones_like(x), x, np.maximum(x - at, 0)], y) for at in np.arange(3, len(curve) - 3 + 5e-3, 1e-2)
    }
    steps = {
        k - 0.5: residual([(x < k) * 1.0, (x < k) * x, (x >= k) * 1.0, (x >= k) * x], y)
        for k in range(4, len(curve) - 2)
    }
    by_bend, by_step = min(bends, key=bends.__getitem__), min(steps, key=steps.__getitem__)
    return by_bend, bends[by_bend], by_step, steps[by_step]


def test_the_fit_is_the_best_of_all() -> None:
    rng = np.random.default_rng(1)
    kinds = set()
    for trial in range(12):
        planted = (bend(5.3, X[:12]), step(6, X[:12]), np.zeros(12))[trial % 3]
        curve = planted + rng.normal(scale=0.15, size=12)
        by_bend, left_by_bend, by_step, left_by_step = tried_everywhere(curve)
        is_step = left_by_step < STEP_SHARE * left_by_bend
        kinds.add(is_step)
        assert change_point(curve) == pytest.approx(by_step if is_step else by_bend, abs=1.1e-2)
    assert kinds == {True, False}


def test_the_first_entry_has_no_say() -> None:
    curve = bend(19.3)
    peak = curve.copy()
    peak[0] = 1000.0
    assert change_point(peak) == change_point(curve)


def test_adding_a_line_moves_nothing_and_reversal_mirrors() -> None:
    curve = bend(12.6) + np.random.default_rng(2).normal(scale=0.1, size=28)
    assert change_point(curve + 3 - 0.7 * X) == pytest.approx(float(change_point(curve)), abs=1e-9)
    mirrored = np.concatenate([[0.0], curve[:0:-1]])
    assert change_point(mirrored) == pytest.approx(28 - float(change_point(curve)), abs=1e-9)


def test_what_has_no_change_point() -> None:
    straight = 2 - 0.3 * X
    straight[0] = 9.0
    assert np.isnan(change_point(straight))
    assert np.isnan(change_point(np.zeros(10)))
    assert change_point_reason("kl", straight) == "the kl curve is a straight line, without a break"
    assert change_point_reason("kl", X[:6] ** 2) == "a change point needs at least 7 blocks, and the model has 6"
    broken = bend(9)
    broken[[2, 5]] = np.nan, np.inf
    assert change_point_reason("kl", broken) == "the kl curve has no finite value at 2 of 28 entries"


def test_a_batch_is_its_curves_one_by_one() -> None:
    curves = np.random.default_rng(3).normal(size=(3, 4, 9)).cumsum(-1)
    curves[0, 0, 5], curves[2, 1] = np.nan, np.arange(9)
    found = change_point(curves)
    for index in np.ndindex(3, 4):
        np.testing.assert_allclose(found[index], change_point(curves[index]), atol=1e-9)
    assert np.isnan(found).sum() == 2
    assert np.isnan(change_point(curves[..., :6])).all()
    assert change_point(curves[..., :6]).shape == (3, 4)
