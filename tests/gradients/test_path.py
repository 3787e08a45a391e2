"""Paths end at the actual activations and begin at their means."""

from __future__ import annotations

import pytest
import torch
from support import waves

from bathyscope.gradients.path import path_of
from bathyscope.gradients.trajectory import Trajectory


def trajectory() -> Trajectory:
    draw = torch.Generator().manual_seed(0)

    def vectors() -> torch.Tensor:
        return torch.randn(5, 64, generator=draw)

    return Trajectory(
        0, 5, [vectors() for _ in range(6)], {p: [vectors() for _ in range(5)] for p in ("attention", "mlp")}
    )


@pytest.mark.parametrize(("baseline", "axis"), [("tokens", 0), ("channels", 1)])
def test_a_path_of_the_blocks_output(baseline: str, axis: int) -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 2, "block", baseline, 4)
    start, half, end = path.points(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)).detach()
    h = kept.boundaries[3]
    mean = h.mean(axis, keepdim=True).expand_as(h)[:4]  # over all tokens, also those that are then left out
    assert torch.equal(end, h[:4])
    assert torch.allclose(start, mean, atol=1e-6)
    assert torch.allclose(half, (h[:4] + mean) / 2, atol=1e-6)


def test_a_contribution_that_is_added_last_moves_the_stream_by_as_much() -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 1, "mlp", "tokens", 5)
    assert path.part is None
    (start,) = path.points(torch.zeros(1, dtype=torch.float64)).detach()
    m = kept.parts["mlp"][1]
    assert torch.allclose(start, kept.boundaries[2] - m + m.mean(0), atol=1e-5)


def test_an_earlier_contribution_is_followed_itself() -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 1, "attention", "tokens", 5)
    assert path.part == "attention"
    assert torch.equal(path.end_TD, kept.parts["attention"][1])
    assert path_of(waves.loaded("gpt_neox").anatomy, kept, 1, "attention", "tokens", 5).part is None
