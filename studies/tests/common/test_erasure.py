"""Readings of depth on one problem, on made-up effects whose depth is plain to see."""

from __future__ import annotations

import numpy as np
import xarray as xr

from studies.common.erasure import persistence


def erasure(effect_BT: list[list[float]], answer_start: int) -> xr.Dataset:
    return xr.Dataset(
        {"effect": (("prompt", "boundary", "token"), np.array([effect_BT])), "answer_start": ("prompt", [answer_start])}
    )


def test_a_token_that_matters_up_to_boundary_two_counts_three() -> None:
    # boundaries 0 … 4; token 1 matters at 0, 1, 2; the predicting token 2 and the first one everywhere: not counted
    effect = [[1, 0.5, 1], [1, 0.5, 1], [1, 0.5, 1], [1, 0, 1], [1, 0, 1]]
    np.testing.assert_allclose(persistence(erasure(effect, answer_start=3)), [3.0])


def test_tokens_count_by_their_largest_effect() -> None:
    # one token matters at one boundary with 0.9, another at three with 0.1: (0.9 + 0.3) / (0.9 + 0.1)
    effect = [[0, 0.9, 0.1, 1], [0, 0, 0.1, 1], [0, 0, 0.1, 1], [0, 0, 0, 1]]
    np.testing.assert_allclose(persistence(erasure(effect, answer_start=4)), [1.2])


def test_the_last_boundary_does_not_count() -> None:
    effect = [[0, 0.2, 1], [0, 0.2, 1], [0, 0.7, 1]]
    np.testing.assert_allclose(persistence(erasure(effect, answer_start=3)), [2.0])


def test_padding_and_prompts_without_any_effect() -> None:
    padded = [[0, 0.4, 1, np.nan], [0, 0.4, 1, np.nan], [0, 0, 1, np.nan]]
    np.testing.assert_allclose(persistence(erasure(padded, answer_start=3)), [2.0])
    assert np.isnan(persistence(erasure([[0, 0, 1], [0, 0, 1]], answer_start=3))).all()
