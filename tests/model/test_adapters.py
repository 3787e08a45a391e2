"""Models of PEFT: measured as their adapters are, and the run says how that is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from support import zoo

import bathyscope
from bathyscope.model import adapters_of
from bathyscope.pages.text.provenance import configuration

peft = pytest.importorskip("peft")


def adapted() -> Any:
    """A small Llama with an adapter that changes what it says, and another one that is not in use."""
    torch.manual_seed(0)
    config = peft.LoraConfig(target_modules=["q_proj", "up_proj"], r=2, init_lora_weights=False)
    model = peft.get_peft_model(zoo.entry("llama").build(), config).eval()
    model.add_adapter("other", config)
    return model


def surveyed(model: Any) -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), (12, 9))
    return bathyscope.survey(model, ids, ["lens", "drop"], progress=False)


@pytest.mark.parametrize(
    ("state", "change", "within"),
    [
        ("default active, other inactive", lambda model: None, lambda model: nullcontext()),
        ("default disabled, other disabled", lambda model: None, lambda model: model.disable_adapter()),
        ("default merged, other inactive", lambda model: model.merge_adapter(), lambda model: nullcontext()),
        ("default inactive, other active", lambda model: model.set_adapter("other"), lambda model: nullcontext()),
    ],
)
def test_a_run_says_what_its_adapters_do(
    state: str, change: Callable[[Any], None], within: Callable[[Any], AbstractContextManager[None]]
) -> None:
    model = adapted()
    change(model)
    with within(model):
        run = surveyed(model)
        logits = model(input_ids=torch.arange(9)[None]).logits
    assert run.identity.adapters == state
    assert f" with adapters ({state}) on given: 2 prompts" in run.caption()
    assert ("adapters", state) in configuration(run)
    plain = zoo.entry("llama").build().eval()
    same = torch.allclose(logits, plain(input_ids=torch.arange(9)[None]).logits, atol=1e-6)
    assert same is ("disabled" in state)


def test_a_merged_and_unloaded_model_is_a_plain_one() -> None:
    merged = adapted().merge_and_unload()
    assert adapters_of(merged) is None
    assert surveyed(merged).identity.adapters is None


def test_a_run_is_not_resumed_with_adapters_in_another_state(tmp_path: Any) -> None:
    model = adapted()
    ids = zoo.prompts(zoo.build("llama"), (12, 9))
    bathyscope.survey(model, ids, ["lens"], tmp_path / "run", progress=False)
    with (
        model.disable_adapter(),
        pytest.raises(bathyscope.StoreError, match="adapters: run has 'default active, o"),
    ):
        bathyscope.survey(model, ids, ["lens"], tmp_path / "run", progress=False)
