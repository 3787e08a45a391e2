"""Damage is not copied: shapes, numbers and companions of a checkpoint are looked at before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import zoo

import bathyscope
from bathyscope import ModelError, StoreError

NAME = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    zoo.build("llama").save_pretrained(tmp_path / "own" / "llama")
    return tmp_path / "own" / "llama"


def altered(folder: Path, value: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    save_file({**load_file(file), NAME: value.contiguous()}, file, {"format": "pt"})


def assert_refused(folder: Path, kind: type[Exception], message: str) -> None:
    out = folder.parent.parent / "out"
    with pytest.raises(kind, match=message):
        bathyscope.export(str(folder), "drop:3", out)
    assert not out.exists()
    assert not list(out.parent.glob(".partial-*"))


def test_a_tensor_of_another_shape_is_refused(folder: Path) -> None:
    weight = load_file(folder / "model.safetensors")[NAME]
    altered(folder, weight[:, :-1])
    rows, columns = weight.shape
    message = f"{NAME} is {rows}×{columns - 1} in the checkpoint, and its configuration makes it {rows}×{columns};"
    assert_refused(folder, ModelError, message)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(folder: Path, bad: float, dtype: torch.dtype) -> None:
    weight = load_file(folder / "model.safetensors")[NAME].to(dtype)
    weight[-1, -1] = bad
    altered(folder, weight)
    assert_refused(folder, ModelError, rf"has weights that are NaN or Inf: {NAME}. A copy would be as broken")


def test_in_memory_they_are_refused_too(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
    with pytest.raises(ModelError, match="has weights that are NaN or Inf"):
        bathyscope.export(hf, "drop:3", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_models_own_folder_stays_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.chdir(folder.parent)
    for target, where in ((folder, "is"), (folder / "smaller", "lies inside of"), (Path("llama/in"), "lies inside")):
        with pytest.raises(StoreError, match=f"{where}.* the folder of the model that is exported|exists and holds"):
            bathyscope.export(str(folder), "drop:3", target)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_the_card_names_the_model_and_no_path(folder: Path) -> None:
    out = bathyscope.export(str(folder), "drop:3", folder.parent.parent / "out")
    assert isinstance(out, Path)
    for file in ("README.md", "bathyscope.json", "config.json"):
        assert str(folder.parent) not in (out / file).read_text()
    assert 'base_model: "llama"' in (out / "README.md").read_text()


def test_missing_weights_are_named_with_the_file_that_lacks_them(folder: Path) -> None:
    """A folder that somebody made cannot be downloaded again."""
    file = folder / "model.safetensors"
    save_file({name: value for name, value in load_file(file).items() if name != NAME}, file, {"format": "pt"})
    message = rf"^model\.safetensors in '{folder}' lacks weights of the model: {NAME}\. Restore the file, or save"
    assert_refused(folder, ModelError, message)


def test_a_missing_file_is_named_with_its_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": [NAME], "b.safetensors": sorted(set(tensors) - {NAME})}
    for part, names in parts.items():
        save_file({name: tensors[name] for name in names}, folder / part, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: part for part, names in parts.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / "a.safetensors").unlink()
    message = (
        rf"a\.safetensors cannot be read \(No such file or directory\), so that its weights are missing: {NAME}\. Rest"
    )
    assert_refused(folder, ModelError, message)
    save_file({"lm_head.weight": tensors["lm_head.weight"]}, folder / "a.safetensors", {"format": "pt"})
    assert_refused(folder, ModelError, rf"^a\.safetensors in '{folder}' lacks weights of the model: {NAME}\.")
