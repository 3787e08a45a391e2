"""What a model computes with beside its weights: one hash that knows settings, and not names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from support import unknown, zoo
from torch import nn
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope import StoreError
from bathyscope.model import config_hash

IDS = [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]]


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma4", "gemma4_experts", "mixtral"])
def test_saving_and_loading_changes_no_setting(name: str, tmp_path: Path) -> None:
    hf = zoo.entry(name).build()
    hf.save_pretrained(tmp_path)
    assert config_hash(AutoModelForCausalLM.from_pretrained(tmp_path)) == config_hash(hf)


@pytest.mark.parametrize("change", [{"rms_norm_eps": 1e-3}, {"rope_parameters": {"rope_theta": 5e5}}])
def test_settings_are_told_apart(change: dict[str, Any]) -> None:
    hf, other = zoo.entry("llama").build(), zoo.entry("llama").build()
    for name, value in change.items():
        setattr(other.config, name, value)
    assert config_hash(hf) != config_hash(other)


@pytest.mark.parametrize(
    "change", [{"use_cache": False}, {"_name_or_path": "elsewhere"}, {"pad_token_id": 9}, {"architectures": None}]
)
def test_names_and_caches_are_no_settings(change: dict[str, Any]) -> None:
    hf, other = zoo.entry("llama").build(), zoo.entry("llama").build()
    for name, value in change.items():
        setattr(other.config, name, value)
    assert config_hash(hf) == config_hash(other)


def test_defaults_that_a_class_gains_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = unknown.build()
    before = config_hash(hf)
    made = unknown.UnknownConfig.__init__

    def newer(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self.added_since = kwargs.get("added_since", 3)

    monkeypatch.setattr(unknown.UnknownConfig, "__init__", newer)
    hf.config.added_since = 3
    assert config_hash(hf) == before
    hf.config.added_since = 4
    assert config_hash(hf) != before


def test_adapters_that_are_switched_off_are_another_setting() -> None:
    hf = zoo.entry("llama").build()
    layer: Any = nn.Identity()
    layer.scaling, layer.active_adapters, layer.disable_adapters = {"default": 2.0}, ["default"], False
    hf.adapter = layer
    on = config_hash(hf)
    layer.disable_adapters = True
    off = config_hash(hf)
    layer.disable_adapters, layer.scaling = False, {"default": 1.0}
    assert len({on, off, config_hash(hf)}) == 3


def surveyed(model: Any, out: Path) -> bathyscope.Run:
    return bathyscope.survey(model, IDS, ["residual"], out, progress=False)


def test_a_folder_by_another_spelling_is_the_same_run(
    altered: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = altered(name="good")
    monkeypatch.chdir(tmp_path)
    first = surveyed("./good", tmp_path / "run")
    for spelling in ("good/", str(folder), folder / ".." / "good"):
        again = surveyed(spelling, tmp_path / "run")
        assert again.manifest["identity"]["model"] == "./good"
        xr.testing.assert_identical(again["residual"], first["residual"])
    other = altered(config=lambda written: written.update(rms_norm_eps=1e-3), name="other")
    with pytest.raises(StoreError, match="config_hash: run has"):
        surveyed(other, tmp_path / "run")
