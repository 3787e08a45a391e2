"""What a loaded model says of itself: weights, contexts, tokenizers, what is printed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support import waves, zoo
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import ModelError
from bathyscope.model import load, loaded
from bathyscope.model.bundled import model_path


def test_the_hash_is_the_same_however_a_model_was_loaded(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    hf.save_pretrained(tmp_path)
    saved = load(tmp_path)
    assert saved.weight_hash == load(hf).weight_hash
    assert saved.name == str(tmp_path)
    assert load(tmp_path, dtype="bfloat16").dtype == torch.bfloat16


def test_the_checkpoints_dtype_is_kept(tmp_path: Path) -> None:
    zoo.entry("llama").build(dtype=torch.bfloat16).save_pretrained(tmp_path)
    assert load(tmp_path).dtype == torch.bfloat16
    assert load(tmp_path, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "limit", "table"),
    [("llama", 256, False), ("gpt2", 256, True), ("opt", 256, True), ("bloom", None, False), ("gptj", 256, True)],
)
def test_contexts(name: str, limit: int | None, table: bool) -> None:
    model = waves.loaded(name)
    assert (model.max_tokens, model.has_position_table, model.vocabulary) == (limit, table, 120)


def test_what_is_printed() -> None:
    assert repr(waves.loaded("llama")) == "Model(LlamaForCausalLM, llama, 5 blocks × width 64, float32 on cpu)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/home/her/my models/small", "small"),
        ("~/small", "small"),
        (str(model_path()), "bundled model"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("runs/small", "runs/small"),
    ],
)
def test_no_folder_of_this_machine_is_printed(name: str, said: str) -> None:
    model = replace(waves.loaded("llama"), name=name)
    assert repr(model).startswith(f"Model({said}, llama, ")
    assert f">{said}</td>" in model._repr_html_()
    assert said == name or name not in f"{model!r} {model._repr_html_()}"
    assert model.name == name


def test_nothing_is_printed_while_a_folder_is_loaded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    zoo.build("llama").save_pretrained(tmp_path)
    capfd.readouterr()
    load(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_tokenizer_is_no_precision() -> None:
    given = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0})))
    message = r"dtype must be a name such as bfloat16; .* A tokenizer goes under its name: load\(model, tokenizer=…\)\."
    with pytest.raises(ModelError, match=message):
        load(zoo.build("llama"), given)  # type: ignore[arg-type]


def test_a_class_is_no_precision_either() -> None:
    with pytest.raises(ModelError, match=r"such as bfloat16; the class float32 given\.$"):
        load("somewhere", np.float32)  # type: ignore[arg-type]


def test_a_model_made_in_memory_has_no_tokenizer() -> None:
    assert load(zoo.build("llama")).tokenizer is None
    given = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0})))
    assert load(zoo.build("llama"), tokenizer=given).tokenizer is given


def test_quantised_weights_bring_a_warning() -> None:
    hf = zoo.entry("llama").build()
    hf.config.quantization_config = {"bits": 8}
    hf.register_buffer("packed", torch.zeros((2, 2), dtype=torch.int8))
    with pytest.warns(UserWarning, match="This model's weights are quantised. 8-bit kernels choose outlier columns"):
        model = load(hf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded(model) is model
