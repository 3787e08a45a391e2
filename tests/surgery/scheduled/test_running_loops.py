"""A looped model runs a schedule of its steps from within its own forward."""

from __future__ import annotations

import pytest
import torch
from support import looped as zoo

import bathyscope
from bathyscope.errors import OptionError

IDS = torch.tensor([[7, 5, 9, 33, 7, 21, 4, 4, 8, 11]])


@pytest.mark.parametrize("steps", [(0,), (3,), (1, 4), (5,)], ids=str)
@pytest.mark.parametrize("name", ["tied", "ouro", "recursion", "huginn_still", "hrm_text"])
def test_dropped_steps_are_those_of_the_patched_forward(name: str, steps: tuple[int, ...]) -> None:
    model = bathyscope.load(zoo.LOOPED[name]())
    with bathyscope.scheduled(model, ",".join(f"drop:{step}" for step in steps)) as hf, torch.no_grad():
        logits = hf(input_ids=IDS, use_cache=False).logits
    assert torch.equal(logits, zoo.patched_logits(model.hf, IDS, steps))
    with torch.no_grad():
        assert torch.equal(model.hf(input_ids=IDS).logits, zoo.patched_logits(model.hf, IDS, ()))


@pytest.mark.parametrize("schedule", ["drop:3", "repeat:1+2"])
def test_generation_on_a_cache_equals_generation_without(schedule: str) -> None:
    model = bathyscope.load(zoo.hrm())
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with bathyscope.scheduled(model, schedule) as hf, torch.no_grad():
        cached, plain = (hf.generate(IDS, use_cache=use_cache, **options) for use_cache in (True, False))
    assert torch.equal(cached, plain)


def test_slots_of_a_looped_list_are_refused() -> None:
    with (
        pytest.raises(OptionError, match="the list of a looped model has no place for each run"),
        bathyscope.scheduled(zoo.make(zoo.Looped), "swap:1", arguments="slot"),
    ):
        pass
