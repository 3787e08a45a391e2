"""Gradients are taken without a trace: flags and modes of the model are as before, whatever the caller's mode."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import nn

from bathyscope.gradients.differentiating import differentiating


def model() -> nn.Module:
    made = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    made[0].weight.requires_grad_(False)
    made.train()
    made[2].eval()
    return made


def state(of: nn.Module) -> tuple[list[bool], list[bool]]:
    return [p.requires_grad for p in of.parameters()], [m.training for m in of.modules()]


@pytest.mark.parametrize(
    "mode", [nullcontext(), torch.no_grad(), torch.inference_mode()], ids=["on", "off", "inference"]
)
def test_autograd_records_whatever_the_callers_mode(mode: AbstractContextManager[None]) -> None:
    made = model()
    with mode:
        before = state(made), torch.is_grad_enabled()
        with differentiating(made):
            assert not any(p.requires_grad for p in made.parameters())
            assert not any(m.training for m in made.modules())
            leaf = torch.ones(2, 3, requires_grad=True)
            (found,) = torch.autograd.grad(made(leaf).sum(), leaf)
        assert (state(made), torch.is_grad_enabled()) == before
    wanted = (made[2].weight @ made[0].weight).detach().expand(2, 3)
    assert torch.allclose(found, wanted)
    assert all(p.grad is None for p in made.parameters())


def test_an_exception_leaves_the_model_as_it_was() -> None:
    made = model()
    before = state(made)
    with pytest.raises(KeyError), differentiating(made):
        raise KeyError
    assert state(made) == before
