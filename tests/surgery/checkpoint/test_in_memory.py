"""A model in memory that a checkpoint would not be: it fails itself, or has weights of several precisions."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.equal_functions import copied, tiny
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope import ModelError
from bathyscope.surgery.checkpoint.card import CARD

IDS = torch.tensor([[3, 4, 5, 9, 8]])

FAILING: dict[str, Callable[[Any], Any]] = {
    "a block in half": lambda hf: hf.model.layers[2].half(),
    "a block in float64": lambda hf: hf.model.layers[2].double(),
    "an MLP in bfloat16": lambda hf: hf.model.layers[0].mlp.bfloat16(),
    "the unembedding in half": lambda hf: hf.lm_head.half(),
}
"""What is converted by itself → converts it, so that products meet two precisions."""


@pytest.mark.parametrize("schedule", ["drop:1", "drop:2"])
@pytest.mark.parametrize("name", FAILING)
def test_a_model_that_fails_itself_is_refused_with_its_reason(name: str, schedule: str, tmp_path: Path) -> None:
    """Also where the schedule leaves out the block that fails: nothing says what the others should compute."""
    hf = tiny()
    model = bathyscope.load(hf)
    FAILING[name](hf)
    with pytest.raises(RuntimeError, match="same dtype"):
        hf(IDS)
    for source in (hf, model):
        with pytest.raises(ModelError, match=r"own forward of 2 tokens fails with RuntimeError: .*same dtype"):
            bathyscope.export(source, schedule, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


MIXED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "embedding": (lambda hf: hf.model.embed_tokens.half(), "model.embed_tokens.weight is float16", "float32"),
    "final norm": (lambda hf: hf.model.norm.half(), "model.norm.weight is float16", "float32"),
    "norms": (
        lambda hf: [block.input_layernorm.bfloat16() for block in hf.model.layers],
        r"model.layers.0.input_layernorm.weight \(and 3 more\) is bfloat16",
        "float32",
    ),
}
"""What is converted by itself → converts it, the words, and the precision of most weights."""


@pytest.mark.parametrize("name", MIXED)
def test_a_copy_loads_as_most_weights_are_and_says_which_are_not(name: str, tmp_path: Path) -> None:
    change, words, most = MIXED[name]
    hf = tiny()
    with torch.no_grad():
        change(hf)
    with pytest.warns(UserWarning, match=f"{words} in memory and loads here in {most}, as most weights do"):
        out = bathyscope.export(hf, "drop:1", tmp_path / "out")
    assert f"loads here in {most}" in (out / CARD).read_text()
    reloaded = AutoModelForCausalLM.from_pretrained(out).eval()
    assert {str(weight.dtype) for weight in reloaded.parameters()} == {f"torch.{most}"}
    # no number was rounded on the way: half precision is widened
    theirs = dict(hf.named_parameters())
    for key, weight in reloaded.named_parameters():
        block = key.split(".")[2] if ".layers." in key else ""
        source = key if block in ("", "0") else key.replace(f".{block}.", f".{int(block) + 1}.")
        assert torch.equal(weight, theirs[source].float())


WIDE = [("gpt_oss", torch.float16), ("ernie4_5_moe", torch.float16), ("ernie4_5_moe", torch.bfloat16)]
"""Where transformers itself loads some weights in float32."""


@pytest.mark.parametrize("name", ["tiny", "gpt_oss", "ernie4_5_moe"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_the_library_itself_keeps_wide_is_no_difference(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    copied(name).to(dtype).save_pretrained(tmp_path / "source")
    hf = AutoModelForCausalLM.from_pretrained(tmp_path / "source", dtype=dtype).eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = bathyscope.export(hf, "drop:1", tmp_path / "out")
    assert not [str(warning.message) for warning in caught if "loads here in" in str(warning.message)]
    reloaded = AutoModelForCausalLM.from_pretrained(out)
    kinds = {key: weight.dtype for key, weight in hf.named_parameters()}
    assert (len({*kinds.values()}) == 2) == ((name, dtype) in WIDE)
    first = {key: kind for key, kind in kinds.items() if ".layers." not in key or ".layers.0." in key}
    assert first.items() <= {key: weight.dtype for key, weight in reloaded.named_parameters()}.items()


def test_a_model_in_one_precision_says_nothing(tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        hf = copy.deepcopy(tiny()).to(dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bathyscope.export(hf, "drop:1", tmp_path / str(dtype))
        assert not [str(warning.message) for warning in caught if "in memory and loads" in str(warning.message)]
