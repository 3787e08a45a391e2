"""Whole tensors from the parts of one rank: layouts of torch, in a group of one process and of two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from support.on_ranks import launch, require_done
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from bathyscope.model.shards import is_shard, is_split, local, whole, whole_block, whole_chunks


@pytest.fixture(autouse=True)
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def split(value: torch.Tensor, axis: int | None) -> torch.Tensor:
    mesh = init_device_mesh("cpu", (1,))
    return distribute_tensor(value, mesh, [Replicate() if axis is None else Shard(axis)])


def test_plain_tensors_are_no_shards() -> None:
    plain = torch.randn(3, 4)
    assert not is_shard(plain)
    assert whole(plain) is plain
    assert local(plain) is plain
    assert torch.equal(torch.cat(list(whole_chunks(plain))), plain.flatten())


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("most", [16, 64, 1 << 20])
def test_whole_values_come_in_their_order(axis: int | None, most: int) -> None:
    value = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    shard = split(value, axis)
    assert is_shard(shard)
    chunks = list(whole_chunks(shard, most))
    assert torch.equal(torch.cat(chunks), value.flatten())
    assert len(chunks) > 1 or most > value.nbytes // 2
    assert torch.equal(whole(shard), value)


def test_a_block_is_whole_inside_and_split_again_behind() -> None:
    first = nn.Linear(4, 6)
    block = nn.Sequential(first, nn.Linear(6, 4))
    before = [value.detach().clone() for value in block.parameters()]
    first.weight = nn.Parameter(split(first.weight.detach(), 0))
    parts = dict(block.named_parameters())
    assert is_split(block)
    with whole_block(block):
        assert not is_split(block)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(block.parameters(), before, strict=True))
    assert is_split(block)
    assert all(value is parts[name] for name, value in block.named_parameters())


def test_parts_of_two_ranks_give_the_whole(tmp_path: Path) -> None:
    """Uneven, packed and stacked weights, whose parts lie in one another."""
    require_done(launch(2, "rank_shards:check", folder=tmp_path))
