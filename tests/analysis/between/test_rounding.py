"""A close choice falls otherwise in a forward with random rounding, whatever that forward's own errors did to it."""

from __future__ import annotations

import pytest
import torch

from bathyscope.analysis.between.rounding import RandomRounding

EARLIER = ([0.9, 0.5, 0.499, 0.1], [0.9, 0.499, 0.499, 0.1])
"""Numbers of four experts in two forwards; both take 0 and 1, and rounding moves them by as much as 1 leads 2 by."""


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("numbers", [[0.9, 0.5, 0.499, 0.1], [0.9, 0.499, 0.5, 0.1]], ids=["as before", "exchanged"])
def test_a_close_choice_is_not_that_of_before(numbers: list[float], sign: float) -> None:
    earlier = [[sign * torch.tensor([row])] for row in EARLIER]
    with RandomRounding(2, earlier):
        chosen = torch.topk(sign * torch.tensor([numbers]), 2, -1, sign > 0)
    assert chosen.indices.tolist() == [[0, 2]]
    assert sorted(chosen.values.abs()[0].tolist()) == pytest.approx([0.5, 0.9])


def test_a_clear_choice_stays() -> None:
    clear = torch.tensor([[0.9, 0.6, 0.4, 0.1]])
    with RandomRounding(2, [[clear], [clear + 0.01]]):
        assert torch.topk(clear, 2).indices.tolist() == [[0, 1]]
