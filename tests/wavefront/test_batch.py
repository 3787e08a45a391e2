from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.wavefront.batch import Batch, plan_batches, within

PROMPTS = [[5, 6, 7], [8, 9], [1, 2, 3, 4]]


def test_no_property_fails_because_the_machine_is_busy() -> None:
    assert settings.default.deadline is None


def test_pads_on_the_right_with_each_prompts_last_token() -> None:
    batch = Batch.of(PROMPTS)
    assert batch.ids_BT.tolist() == [[5, 6, 7, 7], [8, 9, 9, 9], [1, 2, 3, 4]]
    assert batch.lengths == (3, 2, 4)
    assert (batch.size, batch.tokens, batch.is_ragged) == (3, 4, True)
    assert batch.valid_BT.tolist() == [[True, True, True, False], [True, True, False, False], [True] * 4]
    assert not Batch.of([[1, 2], [3, 4]]).is_ragged


def test_next_tokens_end_with_each_prompt() -> None:
    assert Batch.of(PROMPTS).next_ids_N.tolist() == [6, 7, -1, 9, -1, 2, 3, 4, -1]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_flat_keeps_real_tokens_in_order_and_split_gives_them_back(lengths: list[int]) -> None:
    ids = [[100 * prompt + token for token in range(length)] for prompt, length in enumerate(lengths)]
    batch = Batch.of(ids)
    flat = batch.flat(batch.ids_BT[..., None].float())
    assert flat[:, 0].tolist() == [float(i) for prompt in ids for i in prompt]
    pieces = batch.split(torch.stack([flat[:, 0], -flat[:, 0]]))
    assert [piece[0].tolist() for piece in pieces] == [[float(i) for i in prompt] for prompt in ids]
    assert [piece[1].tolist() for piece in pieces] == [[-float(i) for i in prompt] for prompt in ids]


@given(st.lists(st.integers(2, 80), min_size=1, max_size=20), st.integers(1, 60), st.integers(1, 4000), st.booleans())
def test_batches_hold_every_prompt_once_within_the_limits(
    lengths: list[int], rows: int, call_tokens: int, equal_lengths: bool
) -> None:
    batches = plan_batches(lengths, rows, call_tokens, equal_lengths)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        own = [lengths[index] for index in batch]
        padded = max(own) * len(own)
        if len(batch) > 1:
            assert padded * rows <= call_tokens
            assert padded <= 1.05 * sum(own)
        if equal_lengths:
            assert len(set(own)) == 1


def test_prompts_share_a_batch_while_there_is_room() -> None:
    assert plan_batches([10, 10, 10, 10], 4, 80, False) == [[0, 1], [2, 3]]
    assert plan_batches([10, 10, 10, 10], 4, 10_000, False) == [[0, 1, 2, 3]]
    assert plan_batches([10, 20], 1, 10_000, False) == [[0], [1]]
    assert plan_batches([20, 21], 1, 10_000, False) == [[0, 1]]
    assert plan_batches([20, 21, 20], 1, 10_000, True) == [[0, 2], [1]]


def test_positions_within_limits_of_their_own() -> None:
    cpu = torch.device("cpu")
    assert within(4, 1, None, cpu).tolist() == [[False, True, True, True]]
    assert within(4, 1, (3, 1, 9), cpu).tolist() == [
        [False, True, True, False],
        [False] * 4,
        [False, True, True, True],
    ]
