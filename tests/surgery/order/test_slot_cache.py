"""The cache under a schedule: one layer a slot, of the right kind, and each block sees its own."""

from __future__ import annotations

import pytest
import torch
from support import zoo
from transformers import DynamicCache

from bathyscope.errors import ModelError
from bathyscope.surgery.order.chain import SlotCache

SWAPPED, REPEATED = (0, 2, 1, 3, 4), (0, 1, 1, 2, 3, 4)


def keys(value: float, tokens: int = 3) -> torch.Tensor:
    return torch.full((1, 2, tokens, 4), value)


def test_layers_take_the_kind_of_their_block() -> None:
    """The zoo's Gemma 2 alternates sliding windows and full attention, beginning with a window."""
    cache = DynamicCache(config=zoo.build("gemma2").config)
    assert cache.is_sliding == [True, False, True, False, True]
    SlotCache(SWAPPED, SWAPPED, 5).lay_out(cache)
    assert cache.is_sliding == [True, True, False, False, True]


def test_a_kind_that_no_slot_has_keeps_a_layer_at_the_end() -> None:
    cache = DynamicCache(config=zoo.build("lfm2_convolutions").config)
    order = (0, 1, 2, 3)
    SlotCache(order, order, 5).lay_out(cache)
    assert len(cache) == 5
    assert cache.get_seq_length() == 0


def test_a_block_that_runs_twice_has_two_layers() -> None:
    cache, slots = DynamicCache(), SlotCache(REPEATED, REPEATED, 5)
    assert not slots.owns(cache)
    slots.lay_out(cache)
    assert slots.owns(cache)
    for slot, block in enumerate(REPEATED):
        slots.view(cache, slot).update(keys(slot), keys(slot), block)
    slots.lay_out(cache)
    for slot, block in enumerate(REPEATED):
        seen, _ = slots.view(cache, slot).update(keys(10 + slot, 1), keys(10 + slot, 1), block)
        assert seen[0, 0, :, 0].tolist() == [slot] * 3 + [10 + slot]


def test_blocks_ask_the_first_slot_for_the_length_of_the_past() -> None:
    cache, slots = DynamicCache(), SlotCache((1, 0, 2), (1, 0, 2), 3)
    slots.lay_out(cache)
    slots.view(cache, 0).update(keys(1.0), keys(1.0), 1)
    assert slots.view(cache, 2).get_seq_length() == 3
    assert slots.view(cache, 1).get_seq_length() == 0


def test_filled_caches_of_another_order_are_refused() -> None:
    filled = DynamicCache()
    filled.update(keys(1.0), keys(1.0), 0)
    with pytest.raises(ModelError, match="filled under another order of the blocks"):
        SlotCache(SWAPPED, SWAPPED, 5).lay_out(filled)
    cache = DynamicCache()
    SlotCache(SWAPPED, SWAPPED, 5).lay_out(cache)
    with pytest.raises(ModelError, match=r"begin with a new cache inside scheduled\(\)"):
        SlotCache(REPEATED, REPEATED, 5).lay_out(cache)
