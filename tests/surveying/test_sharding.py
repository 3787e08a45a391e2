"""How a survey is cut into shards and batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import waves

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model.bundled import model_path
from bathyscope.model.memory import bytes_per_token
from bathyscope.surveying import sharding
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.sharding import (
    SHARD_TOKENS,
    batch_room,
    call_size,
    convoy_seconds,
    convoys_of,
    shard_tokens,
    shards_of,
)


@given(lengths=st.lists(st.integers(2, 30), min_size=1, max_size=40), tokens=st.integers(1, 100))
def test_shards_hold_every_prompt_once_and_no_more_than_they_may(lengths: list[int], tokens: int) -> None:
    shards = shards_of(lengths, tokens)
    assert [i for first, last in shards for i in range(first, last)] == list(range(len(lengths)))
    for first, last in shards:
        assert sum(lengths[first:last]) <= tokens or last == first + 1
    # no two neighbours would fit into one shard
    assert all(sum(lengths[a:d]) > tokens for (a, _), (_, d) in pairwise(shards))


def test_shards_are_longer_where_a_model_is_small() -> None:
    schedules = {"drop": None, "swap": None, "repeat": {"length": 3}}
    tiny = waves.facts(waves.loaded("llama"))
    shipped = waves.facts(bathyscope.load(model_path(), dtype="float32"))
    found = {
        name: shard_tokens(known, 1 + sum(m.rows_per_prompt(known, 256) for m in waves.measures(schedules).values()))
        for name, known in (("tiny", tiny), ("shipped", shipped))
    }
    assert found["shipped"] == SHARD_TOKENS
    assert found["tiny"] >= 10 * SHARD_TOKENS
    assert found["tiny"] % SHARD_TOKENS == 0
    # and where less is measured
    assert shard_tokens(tiny, 1) > 3 * found["tiny"]


def test_what_is_asked_for_goes_before() -> None:
    ids = [[5, 6, 7, 8]] * 12
    plans = [Survey(["drop"], batch_tokens=tokens).plan(waves.loaded("llama"), ids) for tokens in (None, 16)]
    assert [len(plan.shards) for plan in plans] == [1, 3]
    assert plans[0].identity()["batch_tokens"] >= SHARD_TOKENS
    assert plans[1].identity()["batch_tokens"] == 16


@pytest.mark.parametrize(("width", "dtype", "room"), [(64, torch.float32, 4000), (2048, torch.float32, 2048)])
def test_narrow_models_take_more_prompts_at_a_time(width: int, dtype: torch.dtype, room: int) -> None:
    anatomy = replace(waves.loaded("llama").anatomy, width=width)
    cpu = torch.device("cpu")
    assert batch_room(anatomy, dtype, 1000, cpu) == room
    # a call's worth is always allowed, however wide the model
    assert batch_room(replace(anatomy, width=1 << 20), dtype, 1000, cpu) == 1000
    # an accelerator waits for what stands around calls, and half of what memory was allowed is for rows
    assert batch_room(anatomy, dtype, 1000, torch.device("cuda")) == 4000
    assert batch_room(anatomy, dtype, 1000, cpu, memory=2 * 3000 * width * dtype.itemsize) == min(room, 3000)


def test_calls_are_as_large_as_memory_allows() -> None:
    anatomy, cpu, gpu = waves.loaded("llama").anatomy, torch.device("cpu"), torch.device("cuda")
    one = bytes_per_token(anatomy, 20)
    assert call_size(anatomy, 20, 1000, None, cpu) is None
    assert call_size(anatomy, 20, 1000, 1000 + 77 * one, cpu) == 77
    assert call_size(anatomy, 20, 1000, 1000 + 7 * one, cpu) == 20  # one row at least
    assert call_size(anatomy, 20, 1000, 1 << 50, cpu) == 4800
    assert call_size(anatomy, 20, 1000, 1 << 50, gpu) == 32768
    with pytest.raises(
        ModelError, match=r"rows of a prompt of 20 tokens take about 1e-06 GB, and memory= allows 9e-07"
    ):
        call_size(anatomy, 20, 1000, 900, cpu)


def test_on_an_accelerator_free_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    anatomy = waves.loaded("llama").anatomy
    one = bytes_per_token(anatomy, 20, torch.device("cuda"))
    monkeypatch.setattr(sharding, "free_bytes", lambda device: 500 + 99 * one)
    assert call_size(anatomy, 20, 500, None, torch.device("cuda")) == 99
    assert call_size(anatomy, 20, 1 << 40, None, torch.device("cuda")) == 20  # what is kept is only about right
    assert call_size(anatomy, 20, 500, None, torch.device("cpu")) is None
    # streamed blocks will need some of it; of what was asked for beside the weights they take nothing
    coming = 40 * one
    assert call_size(anatomy, 20, 500, None, torch.device("cuda"), coming) == 59
    assert call_size(anatomy, 20, 500, 500 + 99 * one, torch.device("cuda"), coming) == 99


def test_convoys_hold_what_fits_and_no_more_than_16_shards() -> None:
    def convoys(units: str, sizes: list[int], shards: list[int], room: int) -> list[str]:
        return ["".join(c) for c in convoys_of(units, sizes, shards, room, [1.0] * len(units), 1e9)]

    assert convoys("abcd", [4, 4, 4, 9], [0, 0, 1, 2], 8) == ["ab", "c", "d"]
    assert convoys("abc", [4, 4, 4], [0, 1, 2], 0) == ["a", "b", "c"]
    assert [len(convoy) for convoy in convoys("x" * 40, [1] * 40, list(range(40)), 10**9)] == [16, 16, 8]
    assert [len(convoy) for convoy in convoys("x" * 40, [1] * 40, [0] * 40, 10**9)] == [40]


def test_a_convoy_ends_with_a_shard_before_it_takes_longer_than_its_reading_is_worth() -> None:
    """Files appear when a convoy ends: one of 16 shards of a minute each would lose a quarter of an hour."""
    shards = [0, 0, 1, 1, 2, 3, 4, 4]
    seconds = [20.0, 20, 20, 20, 70, 200, 10, 10]
    convoys = convoys_of("aabbcdee", [1] * 8, shards, 10**9, seconds, 90)
    assert ["".join(convoy) for convoy in convoys] == ["aabb", "c", "d", "ee"]
    # a shard is not cut for its seconds, since half of it would not be kept
    assert len(convoys_of("aaaa", [1] * 4, [0] * 4, 10**9, [100.0] * 4, 90)) == 1


def test_a_reading_is_worth_ten_times_its_own_seconds() -> None:
    anatomy = waves.loaded("llama").anatomy
    stored = sum(p.numel() * p.element_size() for block in anatomy.blocks for p in block.parameters())
    assert convoy_seconds(anatomy, 75) == 75
    assert convoy_seconds(anatomy, 0) == pytest.approx(stored * 1e-8)
