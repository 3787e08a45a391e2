"""Copies that are changed in a known way: what they say they change, and nothing else."""

from __future__ import annotations

import json

import pytest
import torch
from support import zoo

import bathyscope
from studies.parting.copies import int8_copy, trained_copy
from studies.parting.experiment import record_of

TEXTS = [[5, 9, 7, 30, 44, 12, 8], [3, 8, 1, 22, 40, 2], [9, 9, 2, 31, 5, 11], [6, 14, 2, 9]]


@pytest.mark.parametrize("block", [0, 3, None])
def test_only_what_is_trained_changes(block: int | None) -> None:
    model = bathyscope.load(zoo.build("llama"))
    before = {name: value.clone() for name, value in model.hf.state_dict().items()}
    other = trained_copy(model, TEXTS, block=block, steps=2, rate=1e-2, batch=2, seed=0)
    assert all(torch.equal(model.hf.state_dict()[name], value) for name, value in before.items())
    changed = {name for name, value in other.hf.state_dict().items() if not torch.equal(value, before[name])}
    if block is None:
        assert any("embed" in name for name in changed)
    else:
        assert changed
        assert all(f"layers.{block}." in name for name in changed)
    result = bathyscope.diff(model, other, TEXTS, resamples=20)
    record = json.loads(json.dumps(record_of(result)))
    assert record["first"] == (block or 0)
    assert len(record["graft_mean"]) == model.n_blocks


def test_int8_rows_hold_few_values_and_keep_their_largest() -> None:
    model = bathyscope.load(zoo.build("llama"))
    other = int8_copy(model)
    for block, rounded in zip(model.anatomy.blocks, other.anatomy.blocks):
        for (name, left), right in zip(block.named_parameters(), rounded.parameters()):
            if left.ndim < 2:
                assert torch.equal(left, right), name
                continue
            scale = left.abs().amax(1) / 127
            assert (left - right).abs().max() <= 0.5 * scale.max() * (1 + 1e-4)
            assert not torch.equal(left, right)
            # Whole multiples of a row's scale, at most 127 of them.
            multiples = right / scale[:, None]
            torch.testing.assert_close(multiples, multiples.round(), atol=1e-3, rtol=0)
            assert multiples.abs().max() <= 127.001
