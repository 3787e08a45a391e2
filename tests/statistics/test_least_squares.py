"""Maps from sums, against solutions of the full regression on the tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.sums import sums_of

from bathyscope.statistics.least_squares import RidgeMaps

PENALTIES = (0.0, 1e-3, 0.1, 3.0)
Array = np.ndarray


def tokens(n: int, seed: int, width: int = 7, rogue: float = 300.0) -> tuple[Array, Array]:
    """Correlated features far from 0, one of them very large, and noisy targets of width 4."""
    mixing = np.random.default_rng(99).normal(size=(width, width))
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, width)) @ mixing + 5
    x[:, 2] *= rogue
    y = np.tanh(x @ mixing[:, :4] / rogue) + 0.3 * draw.normal(size=(n, 4)) - 2
    return x, y


def direct(x: Array, y: Array, penalty: float) -> tuple[Array, Array]:
    """(W, b) of ridge regression on standardised features, by lstsq of the tokens with extra rows for the penalty."""
    deviation = x.std(0)
    extra = np.sqrt(penalty * len(x)) * np.diag(deviation)
    design = np.vstack([x - x.mean(0), extra])
    weights = np.linalg.lstsq(design, np.vstack([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))]))[0]
    return weights, y.mean(0) - x.mean(0) @ weights


def made(fit: tuple[Array, Array], held: tuple[Array, Array], penalties: Sequence[float] = PENALTIES) -> Array:
    """What ``RidgeMaps`` says the held-out errors are."""
    first, second = sums_of(*fit), sums_of(*held)
    return RidgeMaps(first, second, penalties).errors(first, second)


@pytest.mark.parametrize("place", range(len(PENALTIES)))
def test_weights_are_those_of_the_full_regression(place: int) -> None:
    x, y = tokens(60, 0)
    fit = sums_of(x, y)
    found = RidgeMaps(fit, sums_of(*tokens(20, 1)), PENALTIES).weights(fit, place)
    expected, _ = direct(x, y, PENALTIES[place])
    np.testing.assert_allclose(found * x.std(0)[:, None], expected * x.std(0)[:, None], atol=1e-11)


def test_held_out_errors_are_those_of_the_maps_token_by_token() -> None:
    fit, (x, y) = tokens(60, 0), tokens(23, 1)
    expected = [((y - x @ w - b) ** 2).sum() for w, b in (direct(*fit, penalty) for penalty in PENALTIES)]
    np.testing.assert_allclose(made(fit, (x, y)), expected, rtol=1e-10)
    assert len(set(np.round(expected, 6))) == len(PENALTIES)


def test_an_exact_map_has_no_error_and_the_least_penalty_wins() -> None:
    x, _ = tokens(60, 0)
    other, _ = tokens(23, 1)
    weights = np.random.default_rng(2).normal(size=(7, 3))
    errors = made((x, x @ weights + 4), (other, other @ weights + 4))
    size = ((other @ weights) ** 2).sum()
    assert abs(errors[0]) < 1e-12 * size
    assert (np.diff(errors) > 1e-9 * size).all()


def test_without_penalty_an_invertible_affine_change_of_the_source_changes_nothing() -> None:
    fit, held = tokens(80, 0), tokens(30, 1)
    change = np.random.default_rng(3).normal(size=(7, 7))
    moved = [(x @ change - 70, y) for x, y in (fit, held)]
    np.testing.assert_allclose(made(*moved, [0.0]), made(fit, held, [0.0]), rtol=1e-8)


def test_at_any_penalty_units_of_single_channels_do_not_matter() -> None:
    fit, held = tokens(80, 0), tokens(30, 1)
    units = np.array([1e-4, 1, 1e5, 3, 1e-2, 7, 1e3])
    np.testing.assert_allclose(made(*[(x * units, y) for x, y in (fit, held)]), made(fit, held), rtol=1e-9)


def test_dependent_features_give_the_same_predictions() -> None:
    """Copies, sums of others, and a large constant: least norm without penalty, as lstsq has it."""
    fit, held = tokens(60, 0), tokens(23, 1)

    def more(x: Array) -> Array:
        return np.column_stack([x, x[:, 0], x[:, 1] - 2 * x[:, 3], np.full(len(x), 300.1)])

    first, second = sums_of(more(fit[0]), fit[1]), sums_of(more(held[0]), held[1])
    found = RidgeMaps(first, second, [0.0])
    assert found.rank == 7
    np.testing.assert_allclose(found.errors(first, second), made(fit, held, [0.0]), rtol=1e-9)
    weights = found.weights(first, 0)
    w, b = direct(*fit, 0.0)
    predicted = first.mean_y_E + (more(held[0]) - first.mean_x_D) @ weights
    np.testing.assert_allclose(predicted, held[0] @ w + b, atol=1e-9)
    np.testing.assert_array_equal(weights[-1], 0)


def test_features_that_never_vary_give_the_mean() -> None:
    _, y = tokens(30, 0)
    _, other = tokens(11, 1)
    fit, held = (np.full((30, 5), 0.1), y), (np.full((11, 5), 0.1), other)
    expected = ((other - y.mean(0)) ** 2).sum()
    np.testing.assert_allclose(made(fit, held), np.full(len(PENALTIES), expected), rtol=1e-12)
    assert RidgeMaps(sums_of(*fit), sums_of(*held), PENALTIES).rank == 0


def test_more_penalty_fits_less() -> None:
    fit = tokens(60, 0)
    errors = made(fit, fit, sorted(PENALTIES))
    assert (np.diff(errors) > 0).all()
    assert errors[-1] < ((fit[1] - fit[1].mean(0)) ** 2).sum()


def rounded(seed: int, n: int, last_bits: int) -> tuple[Array, Array]:
    """Float32 features, of which three are sums of others but for their last bits, as another kernel leaves them."""
    draw = np.random.default_rng(seed)
    x = (draw.normal(size=(n, 12)) + 20).astype(np.float32)
    x[:, 9:] = x[:, :3] + x[:, 3:6] * np.float32(0.7)
    step = np.random.default_rng([seed, last_bits]).integers(-1, 2, size=(n, 3)).astype(np.float32)
    x[:, 9:] += step * np.spacing(x[:, 9:])
    y = x[:, :4] @ draw.normal(size=(4, 4)) + draw.normal(size=(n, 4))
    return x.astype(np.float64), y


def test_the_chosen_penalty_does_not_hang_on_the_last_bit() -> None:
    """Directions of rounding alone (eigenvalues near 1e-15) are no features, whatever the penalty."""
    penalties = (0.0, 1e-6, 1e-5)
    for seed in range(8):
        errors = [
            made(rounded(seed, 40, last_bits), rounded(100 + seed, 20, last_bits), penalties) for last_bits in (0, 1)
        ]
        np.testing.assert_allclose(errors[0], errors[1], rtol=1e-5)
        assert errors[0].argmin() == errors[1].argmin()
        fit = sums_of(*rounded(seed, 40, 0))
        assert RidgeMaps(fit, fit, penalties).rank == 9


def test_a_weak_direction_of_float32_features_is_kept() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(50, 4)).astype(np.float32)
    x[:, 3] = x[:, 0] + np.float32(1e-4) * x[:, 3]
    fit = sums_of(x.astype(np.float64), x[:, :2].astype(np.float64))
    assert RidgeMaps(fit, fit, (0.0,)).rank == 4
