"""A looped model runs a schedule of its steps from within its own forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support import looped as zoo
from torch import Tensor, nn

import bathyscope
from bathyscope.errors import ModelError, OptionError

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


def test_runs_in_parallel_are_those_of_hooks_that_count_them() -> None:
    """Run 1 of block 1 and run 2, of block 0 in the next loop, read the same stream."""
    model = bathyscope.load(zoo.LOOPED["tied"]())
    with bathyscope.scheduled(model, "parallel:1+2") as hf, torch.no_grad():
        logits = hf(input_ids=IDS, use_cache=False).logits
    assert model.anatomy.loops is not None
    seen: list[Tensor] = []

    def count(_: nn.Module, args: tuple[Any, ...]) -> Any:
        seen.append(args[0])
        return (seen[1], *args[1:]) if len(seen) == 3 else None

    def add(_: nn.Module, args: tuple[Any, ...], out: Any) -> Any:
        stream = out[0] if isinstance(out, tuple) else out
        if len(seen) == 2:
            add.added = stream - seen[1]  # type: ignore[attr-defined]
        if len(seen) != 3:
            return None
        merged = stream + add.added  # type: ignore[attr-defined]
        return (merged, *out[1:]) if isinstance(out, tuple) else merged

    blocks = model.anatomy.loops.calls.sources
    handles = [
        h for block in blocks for h in (block.register_forward_pre_hook(count), block.register_forward_hook(add))
    ]
    with torch.no_grad():
        expected = model.hf(input_ids=IDS, use_cache=False).logits
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert float((model.hf(input_ids=IDS, use_cache=False).logits - expected).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["recursion", "hrm_text"])
def test_runs_with_something_between_them_do_not_go_in_parallel(name: str) -> None:
    model = bathyscope.load(zoo.LOOPED[name]())
    with (
        pytest.raises(ModelError, match="blocks have something that is computed between their runs, so that what"),
        bathyscope.scheduled(model, "parallel:1+2"),
    ):
        pass
    with pytest.raises(ModelError, match="model has something that is computed between their runs, so that the stream"):
        bathyscope.survey(model, [[5, 9, 7], [4, 4, 8]], ["drop"], drop={"direct": True}, progress=False)
