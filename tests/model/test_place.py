"""Names of models: folders are looked for before the hub is asked, and slips are told at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import transformers

from bathyscope import ModelError
from bathyscope.model import load, load_config
from bathyscope.model.place import folder_of


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks the hub, or the cache of it, fails."""
    fail: Callable[..., Any] = lambda *_, **__: pytest.fail("transformers was asked")  # noqa: E731
    monkeypatch.setattr(transformers.PreTrainedConfig, "get_config_dict", fail)


def refused(name: str | Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load(name, **options)
    return str(caught.value)


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "The model's name is empty; give a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B."),
        ("   ", "The model's name is empty;"),
        ("a\0b", r"The model's name 'a\x00b' holds a null character; give"),
        ("a\ud800b", r"The model's name 'a\ud800b' holds half a character (a lone surrogate); give"),
        ("x" * 300, f"The model's name '{'x' * 38}… is too long (300 characters; a name may have 255 bytes); give"),
        ("/".join(["x" * 200] * 30), "is too long (6029 characters; a name may have 255 bytes); give"),
    ],
)
def test_names_that_nothing_can_have(name: str, message: str) -> None:
    assert message in refused(name)


@pytest.mark.usefixtures("no_hub")
def test_a_slip_in_a_path_is_told_without_asking_the_hub(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("depth_12", "depth_24", "other"):
        (models / name).symlink_to(saved)
    monkeypatch.chdir(tmp_path)
    folder = refused("models/depth_21")
    assert folder.startswith("There is no folder models/depth_21. Did you mean models/depth_2")
    assert folder.endswith("Give a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B.")
    assert "Did you mean models/depth_12" in refused("./models/depth_12x")
    assert f"Did you mean {models}? " in refused(tmp_path / "modles" / "depth_12")
    assert refused("models/zzzzzz") == (
        "There is no folder models/zzzzzz. For a model of this name on the hub add a revision (--revision main). Give "
        "a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B."
    )
    with pytest.raises(ModelError, match="There is no folder models/depth_21"):
        load_config("models/depth_21")


def test_a_name_in_a_folder_that_exists_is_a_path_unless_a_revision_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nobody" / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert refused("nobody/no-such-model").startswith("There is no folder nobody/no-such-model. For a model of this")
    on_the_hub = "nobody/no-such-model cannot be loaded as a causal language model"
    assert on_the_hub in refused("nobody/no-such-model", revision="main")
    (tmp_path / "nobody" / "runs").rmdir()
    (tmp_path / "nobody").rmdir()
    assert on_the_hub in refused("nobody/no-such-model")


def test_a_single_word_that_is_no_model_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny-llama").mkdir()
    monkeypatch.chdir(tmp_path)
    assert refused("tiny-lama").endswith("Did you mean tiny-llama?")


def test_a_home_directory_is_written_out(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(saved.parent))
    model = load(f"~/{saved.name}")
    assert model.name == f"~/{saved.name}"
    assert model.tokenizer is None
    assert "There is no folder ~/lama. Did you mean" in refused("~/lama")


@pytest.mark.usefixtures("no_hub")
def test_a_revision_of_a_folder(saved: Path) -> None:
    message = f"revision='main' is for models on the hub, and {saved} is a folder, which holds what it holds; leave"
    assert message in refused(saved, revision="main")
    with pytest.raises(ModelError, match="revision='main' is for models on the hub"):
        load_config(str(saved), "main")


@pytest.mark.usefixtures("no_hub")
def test_an_adapter_without_its_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"is a folder without a config.json; an adapter, and a whole model is needed"):
        folder_of(str(tmp_path))
    assert "names no kind of adapter" in refused(tmp_path)


def test_a_model_of_the_hub_that_is_kept_here(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files go through the same looks, and a folder of the same first name does not stand in its way."""
    repository = tmp_path / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / "abc123"
    shutil.copytree(saved, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "org" / "other").mkdir(parents=True)
    (tmp_path / "org" / "other" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for revision in (None, "main"):
        model = load("org/tiny", revision=revision)
        assert (model.name, model.revision) == ("org/tiny", revision)
    assert "There is no folder org/tinx. " in refused("org/tinx")
    (snapshot / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../x.safetensors"}}')
    assert "names '../x.safetensors'; a checkpoint's files are plain names inside its own folder" in refused("org/tiny")
