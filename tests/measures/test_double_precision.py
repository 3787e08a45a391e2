"""A model in float64 is measured in float64: equal to forwards of its own far below what float32 could tell."""

from __future__ import annotations

import pytest
import torch
from support import zoo
from support.brute_force import compare

from bathyscope.model import load

CLOSE = 1e-12


@pytest.mark.each
@pytest.mark.filterwarnings("ignore:skip. 1 of")
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_every_measure_is_equal_to_forwards_of_its_own_in_float64(name: str) -> None:
    model, untouched = (zoo.build(name, dtype=torch.float64) for _ in range(2))
    result = compare(load(model), untouched, zoo.prompts(untouched, (9, 12)))
    assert len(result.measures) == 7
    assert result.worst <= CLOSE, {name: gap for name, gap in result.gaps.items() if gap > CLOSE}
