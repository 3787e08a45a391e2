"""Shares of what all changed blocks do to logits: exact where one block is changed, and where changes add up."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from support import zoo

import bathyscope
from bathyscope import Model
from studies.parting.logits import shares_of_blocks

PROMPTS = [[5, 9, 7, 30, 44], [3, 8, 11]]


def changed(model: Model, blocks: list[int], size: float) -> Model:
    """Return a copy with noise of a size on the weights of some blocks."""
    hf = copy.deepcopy(model.hf)
    generator = torch.Generator().manual_seed(0)
    other = bathyscope.load(hf)
    with torch.no_grad():
        for block in blocks:
            for weight in other.anatomy.blocks[block].parameters():
                weight += size * torch.randn(weight.shape, generator=generator)
    return bathyscope.load(hf)


@pytest.fixture(scope="module")
def whole() -> Model:
    return bathyscope.load(zoo.build("llama"))


def test_the_only_changed_block_has_all_of_the_change(whole: Model) -> None:
    shares = shares_of_blocks(whole, changed(whole, [1], 0.1), PROMPTS)
    expected = np.zeros((len(PROMPTS), whole.n_blocks))
    expected[:, 1] = 1
    np.testing.assert_allclose(shares.by_block, expected, atol=1e-12)
    np.testing.assert_allclose(shares.left, 0, atol=1e-12)


def test_small_changes_add_up_and_large_ones_need_not(whole: Model) -> None:
    """To first order logits are linear in the weights, so that what is left falls with the square of the change."""
    left = {size: shares_of_blocks(whole, changed(whole, [0, 1, 2], size), PROMPTS) for size in (1e-3, 0.3)}
    assert left[1e-3].left.max() < 1e-3 < 0.01 < left[0.3].left.min()
    np.testing.assert_allclose(left[1e-3].by_block.sum(axis=1), 1, atol=0.02)
    record = left[0.3].record()
    assert record["sum"][0] == pytest.approx(sum(record["by_block"]), abs=1e-3)
    assert record["left"][1] <= record["left"][0] <= record["left"][2]
