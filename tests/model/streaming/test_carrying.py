"""Blocks on their way to an accelerator: not used too early, not overwritten, and no more than there is room for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from support.fake_streams import DEVICE, Streams
from torch import Tensor, nn

from bathyscope.model.streaming.carrying import Carried, Pinned
from bathyscope.model.streaming.store import BlockStore, Held

SIZES = (3, 9, 5, 9, 2, 7)


def weights() -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(size, size, generator=draw) for size in SIZES]


def store_of(kept: Sequence[Tensor], window: int) -> BlockStore:
    blocks = [nn.Linear(len(one), len(one), bias=False, device="meta") for one in kept]
    tensors = [{"weight": Held(lambda one=one: one)} for one in kept]  # type: ignore[misc]
    return BlockStore(blocks, [f"blocks.{i}" for i in range(len(kept))], tensors, DEVICE, window)


def visited(store: BlockStore, cuda: Streams, order: Sequence[int]) -> tuple[list[Tensor], int]:
    """What the device sees of blocks that run in an order, and how many tensors it held at most."""
    seen: list[Tensor] = []
    most = 0
    for index in order:
        with store.lend(index):
            block = store._blocks[index]
            assert isinstance(block, nn.Linear)
            cuda.run(lambda weight: seen.append(weight.detach().clone()), block.weight)
        if store._coming is not None:
            store._coming[1].result()  # as if reading took no time
        most = max(most, cuda.living)
    store.release()
    cuda.finish()
    return seen, most


ORDERS = [range(6), (0, 1, 0, 1, 2, 1, 3, 4, 5), (5, 4, 3, 2, 1, 0), (2, 2, 5, 0)]


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("order", ORDERS, ids=["forward", "swapped", "backward", "leaping"])
def test_every_block_is_whole_when_it_runs(order: Sequence[int], window: int) -> None:
    kept = weights()
    with Streams() as cuda:
        seen, _ = visited(store_of(kept, window), cuda, order)
    assert len(seen) == len(order)
    for index, one in zip(order, seen):
        assert torch.equal(one, kept[index])


@pytest.mark.parametrize("window", [1, 2, 3])
def test_no_more_than_the_window_and_the_next_are_on_the_device(window: int) -> None:
    """However far Python is ahead of the device, whose work here begins when somebody waits for it."""
    kept = weights()
    with Streams() as cuda:
        _, most = visited(store_of(kept, window), cuda, range(6))
        assert most == window + 1
        assert cuda.living == 0


def test_a_block_that_is_in_memory_brings_nothing() -> None:
    """accelerate may have left some blocks on the device, and others on disk."""
    kept = weights()[:3]
    with Streams() as cuda:
        store = store_of(kept, 1)
        store._tensors = (store._tensors[0], {}, store._tensors[2])
        store._absent[1] = {}
        for index in range(3):
            with store.lend(index):
                pass
        store.release()
        cuda.finish()
        assert cuda.living == 0


def test_what_is_planted_in_the_carrier_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams are as late as they may be, or nothing here would fail."""
    kept = weights()
    with monkeypatch.context() as patch, Streams() as cuda:
        patch.setattr(
            Carried, "wait", lambda carried: [one.record_stream(cuda.usual) for one in carried.tensors.values()]
        )
        seen, _ = visited(store_of(kept, 1), cuda, range(6))
        assert not all(torch.equal(one, wanted) for one, wanted in zip(seen, kept))
    with monkeypatch.context() as patch, Streams() as cuda:
        patch.setattr(Pinned, "let_go", lambda carrier: None)
        assert visited(store_of(kept, 1), cuda, range(6))[1] > 2
    with monkeypatch.context() as patch, Streams() as cuda:
        patch.setattr(Carried, "wait", lambda carried: cuda.usual.wait_event(carried.arrived))
        with pytest.raises(AssertionError, match="its memory may be used again too early"):
            visited(store_of(kept, 1), cuda, range(6))
