"""Blocks of equal weights that are other functions: each is found, and the graft of the changed one is the whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import peft
import pytest
import torch
from support.equal_functions import tiny, with_adapters
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

import bathyscope
from bathyscope import ModelError
from bathyscope.analysis.between import diff as of_diff

PROMPTS = [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]]


def _forward(block: Any) -> None:
    block.mlp.forward = lambda x: 0 * x


def _activation(block: Any) -> None:
    del block.mlp.act_fn
    block.mlp.act_fn = lambda x: -x


def _scaling(block: Any) -> None:
    block.self_attn.scaling = np.float32(3)


def _method_of_norm(block: Any) -> None:
    block.input_layernorm.forward = lambda x: 2 * x


def _attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **named: Any) -> Any:
    return sdpa_attention_forward(module, query, key, value, mask, scaling=5 * scaling, **named)


def _attention(block: Any) -> None:
    AttentionInterface.register("sharp", _attend)
    AttentionMaskInterface.register("sharp", sdpa_mask)
    block.self_attn.config = copy.deepcopy(block.self_attn.config)
    block.self_attn.config._attn_implementation = "sharp"


CHANGES = [_forward, _activation, _scaling, _method_of_norm, _attention]


@pytest.mark.filterwarnings("ignore:.*was replaced in memory")
@pytest.mark.parametrize("change", CHANGES)
def test_the_graft_of_the_only_changed_block_is_the_whole(change: Callable[[Any], None]) -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    change(other.model.layers[1])
    result = bathyscope.diff(hf, other, PROMPTS, resamples=20)
    assert result.first == 1
    output = result["output"].values
    assert (output > 1e-4).all()
    np.testing.assert_allclose(result["graft"].values[:, 1], output, rtol=1e-4)
    others = np.delete(result["graft"].values, 1, axis=1)
    assert (np.abs(others) < 1e-4 * output[:, None]).all()
    assert "all weights are equal, and " in result.text
    assert "No block differs" not in result.text


@pytest.mark.filterwarnings("ignore:.*was replaced in memory")
def test_a_block_that_parts_for_unknown_reasons_is_grafted(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    _forward(other.model.layers[1])
    equal = of_diff.compare_weights(bathyscope.load(hf), bathyscope.load(copy.deepcopy(hf)))
    assert not any(equal.differs)
    monkeypatch.setattr(of_diff, "compare_weights", lambda *_: equal)
    result = bathyscope.diff(hf, other, PROMPTS, resamples=20)
    assert "all weights are equal, and something unknown in block 1 differs" in result.text
    np.testing.assert_allclose(result["graft"].values[:, 1], result["output"].values, rtol=1e-4)


def test_an_attention_implementation_is_named() -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    other.set_attn_implementation("eager")
    result = bathyscope.diff(hf, other, PROMPTS, resamples=20)
    assert result.attrs["settings_differ"] == ["attention"]
    assert "equal up to rounding on these prompts; all weights are equal, and the attention implementation (sdpa" in (
        result.text
    )


def test_the_state_of_adapters_is_named() -> None:
    tuned = with_adapters(target_modules=["q_proj"])
    other = copy.deepcopy(tuned)
    other.base_model.disable_adapter_layers()
    text = bathyscope.diff(tuned, other, PROMPTS, resamples=20).text
    assert "the state of the adapters (default active and default disabled) differs" in text
    assert "configuration" not in text
    scaled = copy.deepcopy(tuned)
    for module in scaled.modules():
        if isinstance(getattr(module, "scaling", None), dict):
            module.scaling["default"] *= 30
    text = bathyscope.diff(tuned, scaled, PROMPTS, resamples=20).text
    assert "all weights are equal, and the scaling of the adapters in block 0's attention, " in text
    assert "the weights of" not in text
    for name, parameter in scaled.named_parameters():
        if "layers.1." in name and "lora_B" in name:
            parameter.data.mul_(3)
    text = bathyscope.diff(tuned, scaled, PROMPTS, resamples=20).text
    assert (
        "the weights of block 1's attention differ, with the scaling of the adapters in block 0's attention, " in text
    )


def test_a_base_that_was_changed_in_place_is_refused() -> None:
    base = tiny()
    tuned = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)).eval()
    for pair in ((base, tuned), (tuned, base)):
        with pytest.raises(ModelError, match=r"the same modules, adapters included: .* alone and b=None"):
            bathyscope.diff(*pair, PROMPTS, resamples=20)
    with torch.no_grad():
        assert bathyscope.diff(tuned, None, PROMPTS, resamples=20).attrs["adapters_in"]
