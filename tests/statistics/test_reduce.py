from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.reduce import weighted_mean


def test_a_mean_weighted_by_tokens_is_the_mean_over_all_tokens() -> None:
    rng = np.random.default_rng(0)
    tokens = [rng.normal(size=(n, 3)) for n in (2, 7, 1)]
    per_prompt = np.stack([prompt.mean(axis=0) for prompt in tokens])
    np.testing.assert_allclose(weighted_mean(per_prompt, [2, 7, 1]), np.concatenate(tokens).mean(axis=0), rtol=1e-13)


def test_equal_weights_count_each_prompt_once() -> None:
    assert weighted_mean([[1.0, 10.0], [3.0, 20.0]], np.ones(2)).tolist() == [2.0, 15.0]


def test_prompts_without_a_value_take_their_weight_with_them() -> None:
    values = [[1.0, np.nan], [4.0, 5.0], [np.nan, np.nan]]
    assert weighted_mean(values, [1, 2, 100]).tolist() == [3.0, 5.0]


def test_no_value_at_all_is_nan_and_not_zero() -> None:
    assert np.isnan(weighted_mean(np.full((3, 2), np.nan), np.ones(3))).all()
    assert np.isnan(weighted_mean([1.0, 2.0], [0.0, 0.0]))
    assert np.isnan(weighted_mean(np.empty((0, 4)), np.empty(0))).tolist() == [True] * 4


def test_an_infinite_value_spoils_the_means_it_is_in_and_no_others() -> None:
    means = weighted_mean([[np.inf, 1.0], [2.0, 3.0]], [[1.0, 1.0], [0.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(means, [[np.nan, 2.0], [2.0, 3.0], [np.nan, 1.0]])


@pytest.mark.parametrize("missing", [False, True])
def test_resamples_agree_with_a_loop_over_them(missing: bool) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(6, 2, 3))
    if missing:
        values[2] = np.nan
        values[4, 1, 0] = np.nan
    drawn = rng.integers(6, size=(20, 6))
    tokens = rng.integers(1, 50, size=6).astype(float)
    counts = np.stack([np.bincount(row, minlength=6) for row in drawn])
    got = weighted_mean(values, counts * tokens)
    assert got.shape == (20, 2, 3)
    for row, mean in zip(drawn, got):
        picked, weight = values[row], np.broadcast_to(tokens[row][:, None, None], (6, 2, 3))
        weight = np.where(np.isnan(picked), 0.0, weight)
        np.testing.assert_allclose(mean, np.nansum(picked * weight, axis=0) / weight.sum(axis=0), rtol=1e-12)
