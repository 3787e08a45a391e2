"""The rank correlation of prediction neurons with the fall of the KL."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bathyscope.pages.figures.of.prediction_fall import fall, prediction_fall

DRAW = np.random.default_rng(5)
KL = np.cumsum(DRAW.normal(size=(7, 9)), axis=1)
SHARE = DRAW.random(8)
TOKENS = DRAW.integers(3, 9, 7).astype(float)


def test_the_fall_of_each_block() -> None:
    np.testing.assert_allclose(fall(np.array([5.0, 3.0, 3.5, 0.0])), [2.0, -0.5, 3.5])


def test_it_is_spearmans_of_the_mean_over_tokens() -> None:
    mean = np.average(KL, axis=0, weights=TOKENS)
    expected = stats.spearmanr(SHARE, [mean[b] - mean[b + 1] for b in range(8)]).statistic
    found = prediction_fall(KL, SHARE, TOKENS)
    assert found.estimate == pytest.approx(expected)
    assert -1 <= found.ci_low <= found.ci_high <= 1


@pytest.mark.parametrize("sign", [1, -1])
def test_same_and_opposite_order(sign: int) -> None:
    falls = np.sort(DRAW.random(8))
    kl = np.concatenate([[0.0], -np.cumsum(falls)])[None].repeat(4, 0) + DRAW.normal(size=(4, 1))
    assert prediction_fall(kl, sign * np.arange(8.0), np.ones(4)).estimate == pytest.approx(sign)


def test_equal_shares_have_none() -> None:
    assert np.isnan(prediction_fall(KL, np.full(8, 0.1), TOKENS).estimate)
