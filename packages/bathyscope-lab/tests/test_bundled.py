"""The checkpoint and the prompts that ship with the package."""

from __future__ import annotations

import json
import re

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from bathyscope.model.bundled import model_path, prompts_path

PROMPTS = [json.loads(line) for line in prompts_path().read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    loaded: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(model_path(), dtype=torch.float32)
    return loaded


def nats_per_token(model: LlamaForCausalLM, text: str) -> float:
    ids = torch.tensor([AutoTokenizer.from_pretrained(model_path())(text)["input_ids"]])
    with torch.no_grad():
        return float(model(input_ids=ids, labels=ids).loss)


def test_checkpoint_is_small_and_in_safetensors_only() -> None:
    files = [path for path in model_path().iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 16 * 1024**2
    weights = [path for path in files if path.suffix == ".safetensors"]
    assert weights
    assert max(path.stat().st_size for path in weights) <= 3 * 1024**2
    assert {path.suffix for path in files} == {".safetensors", ".json", ".md"}


def test_shape_is_as_announced(model: LlamaForCausalLM) -> None:
    assert model.config.num_hidden_layers == 12
    assert model.config.hidden_size == 192
    assert 4e6 <= model.num_parameters() <= 8e6


def test_tokenizer_is_the_checkpoints_own() -> None:
    own = Tokenizer.from_file(str(model_path() / "tokenizer.json"))
    loaded = AutoTokenizer.from_pretrained(model_path())
    for prompt in PROMPTS:
        assert loaded(prompt["text"])["input_ids"] == own.encode(prompt["text"]).ids
        assert loaded.decode(own.encode(prompt["text"]).ids, skip_special_tokens=True) == prompt["text"]
    assert own.encode("a").ids[0] == loaded.bos_token_id


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: str(prompt["id"]))
def test_prompts_are_short_and_end_with_their_answer(prompt: dict[str, object]) -> None:
    text = str(prompt["text"])
    n_tokens = len(AutoTokenizer.from_pretrained(model_path())(text)["input_ids"])
    assert 40 <= n_tokens <= 120
    if "answer" in prompt:
        assert text.endswith(f" {prompt['answer']}")


def test_prompt_ids_differ_and_labels_are_complete() -> None:
    assert len({prompt["id"] for prompt in PROMPTS}) == len(PROMPTS) == 8
    assert all(set(prompt["labels"]) == {"kind", "steps"} for prompt in PROMPTS)


def test_arithmetic_of_the_prompts_is_right() -> None:
    texts = [prompt["text"] for prompt in PROMPTS if prompt["labels"]["steps"]]
    equations = [found for text in texts for found in re.findall(r"(\d+(?: [-+*/] \d+)+) = (-?\d+)", text)]
    assert len(equations) == sum(prompt["labels"]["steps"] for prompt in PROMPTS)
    assert all(eval(left) == int(right) for left, right in equations)


def test_model_has_learned_its_texts(model: LlamaForCausalLM) -> None:
    uniform = torch.log(torch.tensor(float(model.config.vocab_size)))
    losses = {prompt["id"]: nats_per_token(model, prompt["text"]) for prompt in PROMPTS}
    assert max(losses.values()) < 0.65 * uniform
    assert losses["word-3"] < 1.2
    shuffled = " ".join(reversed(PROMPTS[0]["text"].split()))
    assert nats_per_token(model, shuffled) > losses[PROMPTS[0]["id"]] + 0.5
