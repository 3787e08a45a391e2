"""Special tokens by a checkpoint's files are those of its tokenizer, which nobody loads for them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from bathyscope.prompts.edge_files import edges_in_files
from bathyscope.prompts.padding import NO_EDGES, EdgeTokens

NAMED = [
    {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"},
    {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    {"eos_token": "</s>", "pad_token": "<s>"},
    {"bos_token": "<s>"},
    {},
]
Change = Callable[[Path], None]


def whole(folder: Path) -> None:
    """As it was saved."""


def listed_in_settings(folder: Path) -> None:
    """As earlier versions of the library wrote it: the settings list added tokens, and no vocabulary is needed."""
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    rewrite(folder / "tokenizer_config.json", added_tokens_decoder={str(token.pop("id")): token for token in added})
    (folder / "tokenizer.json").unlink()


def named_in_a_map(folder: Path) -> None:
    """As still earlier versions wrote it: a file of its own names the tokens, with how they are matched."""
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text())
    names = {name: {"content": values.pop(name), "lstrip": False} for name in list(values) if name.endswith("s_token")}
    names |= {"pad_token": values.pop("pad_token")} if "pad_token" in values else {}
    path.write_text(json.dumps(values))
    (folder / "special_tokens_map.json").write_text(json.dumps(names))


def with_a_plain_vocabulary(folder: Path) -> None:
    """Without ``tokenizer.json``."""
    whole_file = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = whole_file["model"]["vocab"] | {token["content"]: token["id"] for token in whole_file["added_tokens"]}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer.json").unlink()


def rewrite(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("names", NAMED, ids=str)
@pytest.mark.parametrize("change", [whole, listed_in_settings, named_in_a_map, with_a_plain_vocabulary])
def test_files_name_what_their_tokenizer_names(
    tmp_path: Path, backend: Callable[..., Tokenizer], names: dict[str, str], change: Change
) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend(bos=True), **names)
    tokenizer.save_pretrained(tmp_path)
    change(tmp_path)
    edges = edges_in_files(tmp_path)
    assert edges == EdgeTokens.of(tokenizer)
    assert bool(edges.pads) == ("pad_token" in names)


def test_pieces_of_unigram_models_are_numbered_by_their_place(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("a", -1.0), ("<pad>", -2.0), ("</s>", -3.0)]
    Tokenizer(models.Unigram(pieces, unk_id=0)).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>", "eos_token": "</s>"}))
    assert edges_in_files(str(tmp_path)) == EdgeTokens(frozenset({2}), frozenset({3}))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", "[" * 100_000, '{"pad_token": 7, "eos_token": {"content": []}}']
)
def test_files_that_say_nothing_name_nothing(tmp_path: Path, content: str) -> None:
    assert edges_in_files(tmp_path) == NO_EDGES
    for name in ("tokenizer_config.json", "special_tokens_map.json", "tokenizer.json", "added_tokens.json"):
        (tmp_path / name).write_text(content)
    assert edges_in_files(tmp_path) == NO_EDGES


def test_no_file_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere.json", tmp_path / "model"
    elsewhere.write_text(json.dumps({"pad_token": "<pad>", "added_tokens_decoder": {"5": {"content": "<pad>"}}}))
    folder.mkdir()
    os.symlink(elsewhere, folder / "tokenizer_config.json")
    assert edges_in_files(folder) == NO_EDGES
    (folder / "tokenizer_config.json").unlink()
    elsewhere.rename(folder / "tokenizer_config.json")
    assert edges_in_files(folder) == EdgeTokens(frozenset({5}))


def test_of_a_name_on_the_hub_the_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"pad_token": "<pad>", "added_tokens_decoder": {"5": {"content": "<pad>"}}}))
    asked = []

    def cached(name: str, file: str, revision: str | None = None) -> str | None:
        asked.append((name, revision))
        return str(settings) if file == settings.name else None

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", cached)
    assert edges_in_files("someone/model", revision="v2") == EdgeTokens(frozenset({5}))
    assert set(asked) == {("someone/model", "v2")}
