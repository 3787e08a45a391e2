"""A tiny model with a tokenizer, prompts for it, and one finished run, all on disk as a user has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import zoo
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from bathyscope.cli import main

WORDS = (
    *("the", "a", "old", "house", "stood", "at", "edge", "of", "village", "where"),
    *("road", "turned", "to", "hills", "and", "light", "was", "seen", "in", "it"),
)
TEXTS = (
    "the old house stood at the edge of the village where the road turned to the hills",
    "a light was seen in the old house and it was seen at the edge of the road and in the hills",
    "the village stood at the road",
)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random five-block Llama and a tokenizer of twenty words."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    zoo.build("llama").save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def prompts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three prompts of 17, 22 and 6 tokens."""
    path = tmp_path_factory.mktemp("prompts") / "house.jsonl"
    lines = [json.dumps({"text": text, "id": f"p{number}"}) for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, prompts_file: Path) -> Path:
    """A finished run with the default measures; never changed by a test."""
    out = tmp_path_factory.mktemp("runs") / "house"
    arguments = ["survey", str(model_folder), "--prompts", str(prompts_file), "--out", str(out), "--quiet"]
    assert main([*arguments, "--effective-depth.resamples", "20"]) == 0
    return out
