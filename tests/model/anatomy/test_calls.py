"""Calls are seen as they end, with copies where they are kept, and answered in the type they were given in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.calls import Call, called, calls_within

H = torch.arange(6.0).view(1, 2, 3)


class Overwriting(nn.Module):
    """Gives a tuple, and writes into what it was given."""

    def forward(self, x: Tensor, by: float = 2.0) -> tuple[Tensor, str]:
        out = x * by
        x.zero_()
        return out, "beside"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"one": Overwriting(), "silent": nn.Identity()})

    def forward(self, x: Tensor) -> Any:
        self.inner["silent"]("no tensor")
        return self.inner["one"](x=x.clone(), by=3.0)


def test_arguments_are_known_by_name_however_they_are_given() -> None:
    seen: list[Call] = []
    module = Overwriting()
    with called([("here", module)], seen.append):
        module(H.clone(), 3.0)
        module(by=3.0, x=H.clone())
    assert [dict(call.bound).keys() for call in seen] == [{"x", "by"}, {"x", "by"}]
    assert [call.path for call in seen] == ["here", "here"]
    assert all(torch.equal(call.value, 3 * H) for call in seen)


def test_an_answer_stands_in_the_place_of_the_first_output() -> None:
    module = Overwriting()
    with called([("", module)], lambda call: -call.value):
        found, beside = module(H.clone())
    assert torch.equal(found, -2 * H)
    assert beside == "beside"
    assert torch.equal(module(H.clone())[0], 2 * H)


def test_hooks_go_away_after_an_error() -> None:
    module = Overwriting()
    with pytest.raises(ZeroDivisionError), called([("", module)], lambda call: 1 / 0):  # type: ignore[arg-type,return-value]
        module(H.clone())
    assert not module._forward_hooks


def test_calls_within_keep_what_one_root_was_given() -> None:
    root, another = Block(), Block()
    with calls_within(root) as found:
        another(H)
        root(2 * H)
        root(3 * H)
    first, second = found
    assert [first.path, second.path] == ["inner.one", "inner.one"]
    assert torch.equal(second.value, 9 * H)
    # what the module overwrote afterwards is that of the call, not of the copy
    second.value.add_(1)
    assert torch.equal(first.value, 6 * H)
