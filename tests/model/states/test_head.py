"""The head of a served model: which tensors are read of a checkpoint, and under which names they are there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import naive, zoo

from bathyscope.errors import ModelError
from bathyscope.model.states.head import read_head

FAMILIES = ("llama", "qwen2", "gemma2", "gpt_neox", "gemma3_multimodal", "olmo", "granite", "opt_projected")
"""Untied, tied, a softcap, renamed by the library, inside a model of images, no weights in the norm, a divisor, a
projection."""


def saved(folder: Path, name: str) -> Path:
    zoo.build(name).save_pretrained(folder)
    return folder


def keep_only(folder: Path, names: tuple[str, ...]) -> None:
    """Leave no tensor in a checkpoint but some, as somebody who copies a head does."""
    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensors[name] for name in names}, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", FAMILIES)
def test_the_readout_of_the_last_boundary_is_the_models_own_prediction(name: str, tmp_path: Path) -> None:
    hf = zoo.build(name)
    head = read_head(str(saved(tmp_path, name)), torch.float32)
    ids = zoo.prompts(hf, (9,))[0]
    blocks = naive.blocks_of(hf)
    last_TD = naive.boundaries(hf, blocks, ids)[-1]
    assert head.n_blocks == len(blocks)
    with torch.no_grad():
        torch.testing.assert_close(head.readout(last_TD), naive.logits(hf, ids), rtol=1e-5, atol=1e-5)


def test_a_folder_of_the_head_alone_is_enough_and_nothing_else_is_read(tmp_path: Path) -> None:
    saved(tmp_path, "llama")
    whole = read_head(str(tmp_path), torch.float32)
    keep_only(tmp_path, ("model.norm.weight", "lm_head.weight"))
    alone = read_head(str(tmp_path), torch.float32)
    stored = load_file(tmp_path / "model.safetensors")
    size = sum(value.numel() * value.element_size() for value in stored.values())
    assert whole.bytes_read == alone.bytes_read == size
    assert torch.equal(alone.readout.head.weight, stored["lm_head.weight"])  # type: ignore[arg-type]


def test_of_several_files_those_with_the_head_alone_are_opened(tmp_path: Path) -> None:
    zoo.build("llama").save_pretrained(tmp_path, max_shard_size="40KB")
    places = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    needed = {places["model.norm.weight"], places["lm_head.weight"]}
    assert needed != set(places.values())
    for name in set(places.values()) - needed:
        (tmp_path / name).unlink()
    head = read_head(str(tmp_path), torch.float32)
    assert torch.equal(head.readout.norm.weight, zoo.build("llama").model.norm.weight)  # type: ignore[arg-type,union-attr]


def test_the_head_is_read_in_the_dtype_of_the_states(tmp_path: Path) -> None:
    head = read_head(str(saved(tmp_path, "llama")), torch.bfloat16)
    weight = zoo.build("llama").lm_head.weight
    assert torch.equal(head.readout.head.weight, weight.bfloat16())  # type: ignore[arg-type]


def remove_norm(folder: Path) -> None:
    keep_only(folder, ("lm_head.weight",))


def widen(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": config["vocab_size"] + 8}))


def quantise(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"lm_head.weight": tensors["lm_head.weight"].to(torch.int8)}, folder / "model.safetensors")


def spoil(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][3] = torch.nan
    save_file(tensors, folder / "model.safetensors")


def make_unknown(folder: Path) -> None:
    (folder / "config.json").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove_norm, r"holds no model.norm.weight, which the head needs; it has lm_head.weight"),
        (widen, r"lm_head.weight is \[\d+, 64\], and the configuration says \[\d+, 64\]"),
        (quantise, r"stores lm_head.weight quantised"),
        (spoil, r"holds NaN or Inf in model.norm.weight"),
        (make_unknown, r"is a folder without a config.json"),
    ],
)
def test_a_head_that_cannot_be_read_is_refused_by_name(
    change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    change(saved(tmp_path, "llama"))
    with pytest.raises(ModelError, match=message):
        read_head(str(tmp_path), torch.float32)


@pytest.mark.parametrize("name", ["universal", "qwen4_exp", "gemma3n", "deepseek_v4", "hy_v4", "inkling2", "reformer"])
def test_models_of_several_streams_or_loops_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="loops, or has several streams, and the states of a file are those of one"):
        read_head(str(saved(tmp_path, name)), torch.float32)


def test_an_adapter_and_a_gguf_file_are_no_heads(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a GGUF file, and a head is read from a safetensors checkpoint"):
        read_head("model.gguf", torch.float32)
