"""The tensors of an export: those that the library itself would save, under the same names and byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support import zoo

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.tensor_names import Layout

# merged experts, fused projections, other prefixes, tied heads, tables by block
NAMES = ("mixtral", "deepseek_v3", "gpt2", "qwen2", "gemma3_multimodal", "phi3", "lfm2_moe")


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_model_is_written_as_the_library_writes_it(name: str, tmp_path: Path) -> None:
    hf = zoo.build(name)
    hf.save_pretrained(tmp_path / "saved")
    wanted = load_file(tmp_path / "saved/model.safetensors")
    for given, place in ((hf, "memory"), (tmp_path / "saved", "folder")):
        found = load_file(Path(bathyscope.export(given, "standard", tmp_path / place)) / "model.safetensors")
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
def test_tables_by_block_keep_the_entries_of_the_blocks_that_stay(tmp_path: Path) -> None:
    hf = zoo.build("gemma4")
    hf.save_pretrained(tmp_path / "saved")
    wanted = hf.model.embed_tokens_per_layer.weight.unflatten(1, (5, -1))[:, [0, 1, 2, 4]].flatten(1)
    for given, place in ((hf, "memory"), (tmp_path / "saved", "folder")):
        found = load_file(Path(bathyscope.export(given, "drop:3", tmp_path / place)) / "model.safetensors")
        assert torch.equal(found["model.embed_tokens_per_layer.weight"], wanted)


def test_weights_behind_layers_of_others_are_not_taken_for_the_models(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    hf = peft.get_peft_model(zoo.entry("llama").build(), peft.LoraConfig(target_modules=["q_proj"]))
    with pytest.raises(ModelError, match=r"has adapters, and a checkpoint holds plain layers alone.*merge_and_unload"):
        bathyscope.export(hf, "drop:1", tmp_path / "out")


def test_names_and_axes_by_block() -> None:
    layout = Layout("h", Schedule((0, 2, 2), 3))
    assert [layout.source(name) for name in ("h.1.w", "h.2.h.1.w", "wte.1", "hh.1.w")] == [
        *("h.2.w", "h.2.h.1.w", "wte.1", "hh.1.w"),
    ]
    assert layout.axis("table", (4, 6), (4, 6)) is None
    assert Layout("h", Schedule((0, 2), 3)).axis("table", (4, 6), (4, 4)) == 1
    for shape in ((4, 5), (2, 4), (4,)):
        with pytest.raises(ModelError, match="which cannot be made of it"):
            Layout("h", Schedule((0, 2), 3)).axis("table", (4, 6), shape)
