"""Weights of every layout that plans of transformers use, put together on all ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from bathyscope.model.ranks import agreed, gathered, of_all, of_first, rank, size, together
from bathyscope.model.shards import whole, whole_chunks


def check() -> None:
    """Whole tensors equal what was split, whatever the layout; values agree."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    draw = torch.Generator().manual_seed(0)
    with together("auto"):
        for shape, placement in (
            ((8, 3), Shard(0)),
            ((7, 3), Shard(0)),
            ((5, 6), Shard(1)),
            ((5, 7), Shard(-1)),
            ((9,), Shard(0)),
            ((2, 8, 3), Shard(1)),
            ((2, 3, 5), Shard(2)),
            ((8, 3), _StridedShard(dim=0, split_factor=2)),
            ((2, 8, 3), _StridedShard(dim=1, split_factor=2)),
            ((2, 3, 8), _StridedShard(dim=2, split_factor=2)),
        ):
            for dtype in (torch.float32, torch.bfloat16, torch.int8):
                value = (10 * torch.randn(shape, generator=draw)).to(dtype)
                # what each rank would read of a file: its own part, and nothing of the other's
                shard = distribute_tensor(value, mesh, [placement], src_data_rank=None)
                assert shard.to_local().numel() < value.numel()
                assert torch.equal(whole(shard), value), (shape, placement, dtype)
                assert torch.equal(torch.cat(list(whole_chunks(shard, 16))), value.flatten())
        here = torch.full((2, 1), float(rank()))
        assert gathered(here, 1).tolist() == [[0.0, 1.0]] * 2
        assert of_all(rank()) == list(range(size()))
        assert agreed(rank()) == 0
        assert of_first(lambda: rank() + 5) == 5
