from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.measures.over_tokens import LEFT_OUT, max_over_tokens, mean_over_tokens, quantile, reduce_tokens
from bathyscope.wavefront.batch import Batch

LENGTHS = (3, 1, 5)
BATCH = Batch.of([[7] * length for length in LENGTHS])


def with_pads(pad: float) -> torch.Tensor:
    """Values [2, prompts, tokens]; every pad holds ``pad``."""
    values = torch.randn(2, len(LENGTHS), max(LENGTHS), generator=torch.Generator().manual_seed(3))
    return values.masked_fill(~BATCH.valid_BT, pad)


@pytest.mark.parametrize("pad", [0.0, 1e30, float("inf"), float("nan")])
def test_pads_enter_neither_mean_nor_max(pad: float) -> None:
    values = with_pads(pad)
    own = [[values[row, i, :length].double().numpy() for i, length in enumerate(LENGTHS)] for row in range(2)]
    means, largest = mean_over_tokens(values, BATCH), max_over_tokens(values, BATCH)
    np.testing.assert_allclose(means.numpy(), [[v.mean() for v in row] for row in own])
    np.testing.assert_array_equal(largest.numpy(), [[v.max() for v in row] for row in own])


def test_without_the_first_token() -> None:
    values = with_pads(float("nan"))[0]
    got = mean_over_tokens(values, BATCH, first=1).tolist()
    assert got[0] == pytest.approx(float(values[0, 1:3].double().mean()))
    assert np.isnan(got[1])
    assert got[2] == pytest.approx(float(values[2, 1:5].double().mean()))


def test_sums_are_double() -> None:
    batch = Batch.of([[1] * 5000])
    values = torch.full((1, 5000), 0.1)
    values[0, 0] = 1e7
    assert mean_over_tokens(values, batch).item() == float(values.double().mean())


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=40), st.floats(0, 1))
def test_the_quantile_is_numpys(values: list[float], q: float) -> None:
    got = quantile(torch.tensor([values], dtype=torch.float64), q).item()
    assert got == pytest.approx(np.quantile(np.array(values), q), rel=1e-12, abs=1e-12)


def test_reductions_stand_in_front() -> None:
    values = torch.randn(4, 31, generator=torch.Generator().manual_seed(1))
    got = reduce_tokens(values)
    assert (tuple(got.shape), got.dtype) == ((3, 4), torch.float64)
    exact = values.double().numpy()
    np.testing.assert_allclose(got[0].numpy(), exact.mean(-1))
    np.testing.assert_allclose(got[1].numpy(), np.quantile(exact, 0.95, axis=-1))
    np.testing.assert_array_equal(got[2].numpy(), exact.max(-1))


def test_no_token_gives_nan() -> None:
    assert reduce_tokens(torch.empty(2, 0)).isnan().all()


def test_tokens_without_a_value_do_not_count() -> None:
    values = torch.tensor([[0.5, LEFT_OUT, 0.25, 1.0], [LEFT_OUT] * 4, [1.0, 2.0, 3.0, 4.0], [1.0, float("nan"), 2, 3]])
    got = reduce_tokens(values).numpy()
    np.testing.assert_allclose(got[:, 0], [1.75 / 3, np.quantile([0.25, 0.5, 1.0], 0.95), 1.0])
    assert np.isnan(got[:, 1]).all()
    np.testing.assert_allclose(got[:, 2], [2.5, np.quantile([1, 2, 3, 4], 0.95), 4.0])
    assert np.isnan(got[[0, 2], 3]).all()
