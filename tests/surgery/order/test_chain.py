"""Stand-ins: what they show of their blocks, and in which order the chain runs those."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule
from bathyscope.surgery.order.chain import Arguments, Chain


class Block(nn.Module):
    """Notes its own number and the argument it was given in the stream: x ← 10·x + number + argument."""

    kind = "plain"

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, hidden: Tensor, offset: float, **_: Any) -> Tensor:
        return hidden * self.scale + self.number + offset


def looped(text: str, arguments: Arguments = "block", returns: int | None = None) -> float:
    """One forward of a model of four blocks; block b is meant to be called with b / 10."""
    blocks = [Block(number) for number in range(4)]
    chain = Chain(Schedule.parse(text, 4), blocks, [returns] * 4, arguments)
    out: Any = torch.zeros(1, 1, 1, dtype=torch.float64)
    for place, stand_in in enumerate(chain.stand_ins()):
        out = stand_in(out[0] if isinstance(out, tuple) else out, place / 10)
    assert isinstance(out, tuple) is (returns is not None)
    return float((out[0] if isinstance(out, tuple) else out).detach())


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("standard", "block", 123 + 12.3),
        ("drop:1", "block", 23 + 2.3),
        ("swap:1", "block", 213 + 21.3),
        ("swap:1", "slot", 213 + 12.3),
        ("repeat:1+2", "block", 11223 + 1122.3),
        ("drop:0", "slot", 123 + 1.2),
    ],
)
def test_blocks_run_in_the_order_of_the_schedule(text: str, arguments: Arguments, expected: float) -> None:
    assert looped(text, arguments) == pytest.approx(expected)


def test_blocks_that_return_tuples_are_answered_for_in_kind() -> None:
    assert looped("swap:1", returns=3) == pytest.approx(213 + 21.3)


def test_a_stand_in_shows_its_block() -> None:
    blocks = [Block(number) for number in range(2)]
    stand_ins = Chain(Schedule.standard(2), blocks, [None, None], "block").stand_ins()
    assert [stand_in.number for stand_in in stand_ins] == [0, 1]
    assert stand_ins[1].kind == "plain"
    assert [name for name, _ in stand_ins.named_parameters()] == ["0.scale", "1.scale"]
    assert list(stand_ins.state_dict()) == ["0.scale", "1.scale"]
    with pytest.raises(AttributeError, match="missing"):
        _ = stand_ins[0].missing
    stand_ins.eval()
    assert not blocks[0].training


def test_blocks_out_of_turn_and_shortened_sequences_are_refused() -> None:
    blocks = [Block(number) for number in range(2)]
    first, second = Chain(Schedule.standard(2), blocks, [None, None], "block").stand_ins()
    with pytest.raises(ModelError, match="Block 1 was called by itself inside scheduled"):
        second(torch.zeros(1, 3, 1), 0.0)
    first(torch.zeros(1, 3, 1), 0.0)
    with pytest.raises(ModelError, match="shortens its sequence between blocks"):
        second(torch.zeros(1, 1, 1), 0.0)
