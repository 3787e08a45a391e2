"""Means over seeds against scipy's own intervals; of untrained models, over these."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from studies.problem_depth.seeds import seed_rows, show_seeds

RNG = np.random.default_rng(0)
SLOPES = RNG.normal(size=(1, 2, 3))
NULLS = RNG.normal(size=(1, 2, 3, 2))
SAME = RNG.normal(size=(1, 3, 2, 1))
DIMS = ("reading", "blocks", "seed")


@pytest.fixture
def found() -> xr.Dataset:
    return xr.Dataset(
        {
            "accuracy": (("blocks", "seed", "steps"), np.arange(12).reshape(2, 3, 2) / 12),
            "moves_slope": (DIMS, SLOPES),
            "untrained_moves_slope": ((*DIMS, "control"), NULLS),
            "same_moves": (("pair", "seed", "read_in", "reading"), SAME),
        },
        {
            **{"blocks": [2, 12], "seed": [0, 1, 2], "steps": [1, 2], "reading": ["erasure"]},
            **{"pair": ["2 and 12 blocks"], "read_in": ["shallow", "deep"], "control": ["untrained-0", "untrained-1"]},
        },
    )


def interval(values: np.ndarray) -> list[float]:
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return [values.mean(), wanted.low, wanted.high]


def test_slopes_are_means_over_trained_and_over_untrained_models(found: xr.Dataset) -> None:
    row = next(row for row in seed_rows(found) if row["what"] == "moves_slope" and row["depth"] == 12)
    np.testing.assert_allclose([row["mean"], row["low"], row["high"]], interval(SLOPES[0, 1]))
    null = [row["untrained_mean"], row["untrained_low"], row["untrained_high"]]
    np.testing.assert_allclose(null, interval(NULLS[0, 1].mean(0)))
    assert (row["seeds"], row["untrained_seeds"]) == (3, 2)


def test_classes_are_read_in_the_deep_model(found: xr.Dataset) -> None:
    row = next(row for row in seed_rows(found) if row["what"] == "same_moves")
    np.testing.assert_allclose([row["mean"], row["low"], row["high"]], interval(SAME[0, :, 1, 0]))


def test_tables_show_shares_with_their_range(found: xr.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    show_seeds(seed_rows(found))
    out = " ".join(capsys.readouterr().out.split())
    assert "mean over 3 seeds (least to most)" in out
    assert "0.17 (0.00–0.33)" in out
    mean, low, high = interval(SLOPES[0, 0])
    assert f"{mean:+.2f} ({low:+.2f} to {high:+.2f})" in out


def test_one_seed_says_nothing_over_seeds(found: xr.Dataset) -> None:
    assert seed_rows(found.isel(seed=[0])) == []
    show_seeds([])
