"""Files of a checkpoint that are damaged, foreign, or outside of it."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support import waves
from torch import Tensor

import bathyscope
from bathyscope import ModelError
from bathyscope.model import checkpoint, load
from bathyscope.model.files import require_own_files, require_whole

Altered = Callable[..., Path]


def refused(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda whole: b"", "is empty. Restore the file, or save the model again (save_pretrained)."),
        (lambda whole: whole[:5], "is no whole safetensors file (Error while deserializing header"),
        (lambda whole: whole[:1000], "is no whole safetensors file (Error while deserializing header"),
        (lambda whole: whole[:-100], "is no whole safetensors file (Error while deserializing header"),
        (lambda whole: struct.pack("<Q", 1 << 40) + whole[8:], "is no whole safetensors file (Error while deserial"),
        (lambda whole: struct.pack("<Q", 1) + whole[8:], "is no whole safetensors file (Error while deserializing"),
        (lambda whole: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS, not"),
        (lambda whole: b"\n<!doctype html><title>Sign in</title>", "is a web page and not a safetensors file"),
        (
            lambda whole: b"PK\x03\x04" + whole,
            "it was cut short, or is something else under that name. Restore the file",
        ),
    ],
)
def test_damaged_weights(altered: Altered, content: Callable[[bytes], bytes], message: str) -> None:
    folder = altered()
    file = folder / "model.safetensors"
    file.write_bytes(content(file.read_bytes()))
    said = refused(folder)
    assert said.startswith(str(file))
    assert message in said
    assert "\n" not in said


def indexed(folder: Path, place: Any) -> Path:
    """The model's weights by an index that says they are at ``place``."""
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    written = {"metadata": {}, "weight_map": {"lm_head.weight": place}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(written))
    return folder


@pytest.mark.parametrize("place", ["../elsewhere.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "", 7, "a\\b"])
def test_an_index_that_leaves_its_folder(altered: Altered, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = indexed(altered(), place)
    read = transformers.AutoModelForCausalLM
    monkeypatch.setattr(read, "from_pretrained", lambda *_, **__: pytest.fail("something was read"))
    message = refused(folder)
    assert f"index.json names {place!r}; a checkpoint's files are plain names inside its own folder" in message


def test_an_index_under_another_name_that_leaves_its_folder(altered: Altered) -> None:
    folder = altered(config=lambda written: written.update(transformers_weights="other.safetensors.index.json"))
    (folder / "other.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../b.safetensors"}}))
    assert "other.safetensors.index.json names '../b.safetensors'" in refused(folder)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": ["b"]}}', "[" * 100_000])
def test_an_unreadable_index(altered: Altered, content: str) -> None:
    folder = indexed(altered(), "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text(content)
    assert "is no readable index of a checkpoint (" in refused(folder)


def test_a_shard_that_is_not_there(altered: Altered) -> None:
    message = refused(indexed(altered(), "model-00002-of-00002.safetensors"))
    assert "model-00002-of-00002.safetensors cannot be read (No such file or directory), so that its weights" in message


def test_whole_numbers_in_the_place_of_weights(altered: Altered) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def quantise(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = (100 * tensors[name]).round().clamp(-127, 127).to(torch.int8)

    message = refused(altered(quantise))
    assert f"stores {name} as whole numbers (I8), and the configuration declares no quantisation" in message


def _checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    waves.loaded("llama").hf.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "NOTICE.txt", "model.safetensors", "extra.model"]
)
def test_a_checkpoint_is_read_inside_of_its_folder(tmp_path: Path, name: str) -> None:
    folder, secret = _checkpoint(tmp_path), tmp_path / "id_rsa"
    secret.write_text("{}")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    for act in (bathyscope.load, lambda place: bathyscope.export(place, "drop:0", tmp_path / "copy")):
        with pytest.raises(ModelError, match=rf"{name} cannot be read: it is a link that leaves") as caught:
            act(str(folder))
        assert "id_rsa" not in str(caught.value)
    assert not (tmp_path / "copy").exists()


def test_what_is_no_file_does_not_hang_and_other_things_lie_where_they_like(tmp_path: Path) -> None:
    folder = _checkpoint(tmp_path)
    os.mkfifo(folder / "training.pipe")
    (folder / "data").symlink_to(tmp_path)
    (folder / "near.json").symlink_to("config.json")
    assert bathyscope.load(str(folder)).n_blocks == waves.loaded("llama").n_blocks
    os.mkfifo(folder / "vocab.json")
    with pytest.raises(ModelError, match=r"vocab\.json cannot be read: it is a FIFO, and only regular files are read"):
        bathyscope.load(str(folder))


def test_further_chat_templates_lie_in_the_folder(tmp_path: Path) -> None:
    folder, secret = _checkpoint(tmp_path), tmp_path / "secret"
    secret.mkdir()
    (secret / "x.jinja").write_text("{{ messages }}")
    templates = folder / "additional_chat_templates"
    templates.mkdir()
    (templates / "x.jinja").symlink_to(secret / "x.jinja")
    message = r"x\.jinja cannot be read: it is a link that leaves"
    with pytest.raises(ModelError, match=message):
        require_own_files(folder)
    (templates / "x.jinja").unlink()
    templates.rmdir()
    templates.symlink_to(secret)
    with pytest.raises(ModelError, match=message) as caught:
        require_own_files(folder)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("base", ["/home/other", "meta/llama", 5, ["a"], "a\x1b[31m" * 40])
def test_the_weights_of_an_adapter_are_not_taken_from_elsewhere(
    tmp_path: Path, base: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _checkpoint(tmp_path)
    about = {"peft_type": "LORA", "base_model_name_or_path": base}
    (folder / "adapter_config.json").write_text(json.dumps(about))
    stored = {file.name: str(file) for file in folder.iterdir()}
    monkeypatch.setattr(checkpoint, "cached_file", lambda _, file, **__: stored.get(file))
    with pytest.raises(ModelError, match=r"owner/it is an adapter, whose weights lie in .*in memory") as caught:
        checkpoint._downloaded("owner/it", None)
    assert "\x1b" not in str(caught.value)
    for own in ({}, {"base_model_name_or_path": None}, {"base_model_name_or_path": "owner/it"}):
        (folder / "adapter_config.json").write_text(json.dumps(own))
        assert checkpoint._downloaded("owner/it", None) == folder
    for damaged in ("[", "[]", "[" * 100_000, '{"a": 1, "a": 2}'):
        (folder / "adapter_config.json").write_text(damaged)
        with pytest.raises(ModelError, match=r"owner/it has no readable adapter_config\.json"):
            checkpoint._downloaded("owner/it", None)


def test_a_configuration_of_millions_of_blocks_is_refused(tmp_path: Path) -> None:
    folder = _checkpoint(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10_000_000}))
    for act in (bathyscope.load, lambda place: bathyscope.estimate(place, [[1, 2, 3]])):
        with pytest.raises(ModelError, match="num_hidden_layers: 10000000; a model has 1 to 1,000 blocks"):
            act(str(folder))


def test_hundreds_of_blocks_that_no_file_has_are_refused_before_they_are_built(tmp_path: Path) -> None:
    folder = _checkpoint(tmp_path)
    declared = json.loads((folder / "config.json").read_text())
    require_whole(folder, declared)
    for config in (declared | {"num_hidden_layers": 9000}, {"text_config": {"num_hidden_layers": 9000}}):
        with pytest.raises(
            ModelError, match=r"declares num_hidden_layers: 9,000, and its weights are those of at most \d "
        ):
            require_whole(folder, config)


def _sharded(folder: Path, doubled: Tensor | None = None) -> dict[str, Any]:
    """Save an altered model's tensors in two files with an index; the first may hold a tensor of the second too."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
    places = {name: file for file, inside in parts.items() for name in inside}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    extra = {} if doubled is None else {names[3]: doubled}
    for file, inside in parts.items():
        stored = {name: tensors[name] for name in inside}
        save_file({**stored, **(extra if names[3] not in stored else {})}, folder / file, metadata={"format": "pt"})
    return {"name": names[3], "tensor": tensors[names[3]]}


def test_two_sets_of_weights_in_one_folder(altered: Altered) -> None:
    folder = altered()
    changed = _sharded(folder)
    assert load(folder).n_blocks  # the shards hold the same weights
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, changed["name"]: changed["tensor"] + 1}, folder / "model.safetensors", {"format": "pt"})
    assert (
        f"holds two sets of weights that differ ({changed['name']}): model.safetensors, and 2 files of "
        "model.safetensors.index.json (model-00001-of-00002.safetensors and 1 more). Remove model.safetensors, or that "
        "index and its files, whichever is not the model."
    ) in refused(folder)
    for shard in folder.glob("model-0*"):
        shard.unlink()
    assert load(folder).n_blocks  # an index alone is no second set


def test_a_tensor_in_two_shards(altered: Altered) -> None:
    folder = altered()
    twice = _sharded(folder)
    _sharded(folder, twice["tensor"])
    (folder / "model.safetensors").rename(folder / "whole.backup")
    assert load(folder).n_blocks
    (folder / "whole.backup").rename(folder / "model.safetensors")
    _sharded(folder, twice["tensor"] + 1)
    (folder / "model.safetensors").unlink()
    message = refused(folder)
    assert message == (
        f"{folder} stores {twice['name']} twice with different values, in model-00001-of-00002.safetensors and "
        "model-00002-of-00002.safetensors. Remove it from one of them, or save the model again (save_pretrained)."
    )
