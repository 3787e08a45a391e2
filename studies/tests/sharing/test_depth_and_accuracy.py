"""Rank correlation over trained models: the textbook's value, intervals that cover, and groups that differ in both."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from studies.sharing.depth_and_accuracy import ACCURACY, _correlation, depth_and_accuracy

ONE_GROUP = np.zeros(12, np.intp)


def found_of(value: xr.DataArray, n_blocks: float = 6) -> xr.Dataset:
    blocks = xr.full_like(value.isel(quantity=0, drop=True), n_blocks)
    return depth_and_accuracy(value, blocks)


def value_of(depth: np.ndarray, accuracy: np.ndarray) -> xr.DataArray:
    """Both [recipe, loss, seed], as the experiment holds them."""
    recipes, losses, seeds = depth.shape
    coords = {"recipe": ["one", "other"][:recipes], "loss": ["all", "answer"][:losses], "seed": list(range(seeds))}
    rows = {"training_loss": -depth, ACCURACY: accuracy, "ratio/settle": depth, "score/output": np.ones_like(depth)}
    return xr.DataArray(
        np.stack(list(rows.values()), -1),
        {**coords, "quantity": list(rows)},
        ("recipe", "loss", "seed", "quantity"),
    )


def test_over_all_models_it_is_spearman_s() -> None:
    draw = np.random.default_rng(0)
    depth = draw.random((2, 2, 3))
    accuracy = np.round(depth + draw.normal(0, 0.3, depth.shape), 1)  # with ties
    found = found_of(value_of(depth, accuracy))
    assert list(found.depth_of.values) == ["ratio/settle", "score/output"]
    own = found.sel(depth_of="ratio/settle", over="all")
    assert float(own.correlation) == pytest.approx(stats.spearmanr(depth.ravel(), accuracy.ravel()).statistic)
    assert float(own.correlation_low) < float(own.correlation) < float(own.correlation_high) < 1
    assert int(own.correlation_models) == 12
    assert found.correlation.sel(depth_of="score/output").isnull().all()  # all depths agree


def test_groups_that_differ_in_both_are_not_a_correlation_within() -> None:
    draw = np.random.default_rng(1)
    offset = np.array([0.0, 5.0])[:, None, None]
    depth, accuracy = (offset + draw.random((2, 1, 20)) for _ in range(2))
    found = found_of(value_of(depth, accuracy)).sel(depth_of="ratio/settle")
    every, within = found.sel(over="all"), found.sel(over="within")
    assert float(every.correlation_low) > 0.5
    assert np.isnan([every.correlation_p, every.correlation_holm]).all()  # not models that could be exchanged
    assert abs(float(within.correlation)) < 0.35
    assert float(within.correlation_low) < 0 < float(within.correlation_high)
    assert float(within.correlation_p) > 0.05


def test_what_goes_together_within_groups_is_found_though_groups_go_apart() -> None:
    draw = np.random.default_rng(2)
    offset = np.array([0.0, 3.0])[:, None, None]
    depth = draw.random((2, 1, 20))
    accuracy = depth - offset + draw.normal(0, 0.05, depth.shape)
    found = found_of(value_of(depth + offset, accuracy)).sel(depth_of="ratio/settle")
    assert float(found.correlation.sel(over="all")) < -0.4
    assert float(found.correlation_low.sel(over="within")) > 0.5


@pytest.mark.parametrize(
    ("models", "groups"),
    [(12, 4), *(pytest.param(*sizes, marks=pytest.mark.thorough) for sizes in ((12, 1), (24, 4), (8, 2)))],
)
def test_intervals_cover_and_the_test_keeps_its_level(
    models: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.sharing.depth_and_accuracy.PERMUTATIONS", 199)
    draw = np.random.default_rng(3)
    group = np.arange(models) % groups
    for rho in (0.0, 0.6, 0.95):
        true = 6 / math.pi * math.asin(rho / 2)
        covered, rejected = [], []
        for _ in range(1000):
            x, noise = draw.normal(size=(2, models))
            y = rho * x + math.sqrt(1 - rho**2) * noise
            # groups that differ much more than the models of one
            x, y = (one + 10 * draw.normal(size=groups)[group] for one in (x, y))
            r, low, high, p_value, n = _correlation(x, y, group)
            assert n == models
            rejected.append(p_value <= 0.05)
            assert np.isnan(low) == (abs(r) > 1 - 1e-9)
            if not np.isnan(low):
                covered.append(low <= true <= high)
        assert 0.93 <= np.mean(covered) <= 0.99
        assert rho > 0 or np.mean(rejected) < 0.065


def test_depths_in_blocks_are_counted_in_shares_of_the_depth() -> None:
    draw = np.random.default_rng(5)
    share, accuracy = draw.random((2, 2, 2, 3))
    blocks = np.array([6, 18])[:, None, None]
    value = value_of(share, accuracy)
    value.loc[{"quantity": "score/output"}] = share * blocks
    n_blocks = xr.DataArray(np.broadcast_to(blocks, share.shape), dims=("recipe", "loss", "seed"))
    found = depth_and_accuracy(value, n_blocks)
    np.testing.assert_allclose(found.correlation[0], found.correlation[1])


def test_too_few_models_have_none() -> None:
    nan = np.nan
    depth = np.array([0.1, 0.2, 0.3, 0.4, nan, nan, nan, nan, nan, nan, nan, nan])
    found = _correlation(depth, np.arange(12.0), ONE_GROUP)
    assert np.isnan(found[:4]).all()
    assert found[4] == 4
    perfect = _correlation(np.arange(12.0), np.arange(12.0) ** 2, ONE_GROUP)
    assert perfect[0] == pytest.approx(1)
    assert np.isnan(perfect[1:3]).all()  # an interval of no width would be a lie
    assert perfect[3] == 1e-4


def test_nothing_is_said_where_there_are_no_harder_problems() -> None:
    value = value_of(np.ones((1, 1, 2)), np.ones((1, 1, 2)))
    assert not found_of(value.drop_sel(quantity=ACCURACY)).data_vars
