"""A saved tiny model, and altered copies of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from support import zoo
from support.made_tokenizers import backend, plain, with_bos

__all__ = ["backend", "plain", "with_bos"]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama of five blocks with a head of its own; read only."""
    folder = tmp_path_factory.mktemp("saved") / "llama"
    zoo.entry("llama").build().save_pretrained(folder)
    return folder


@pytest.fixture
def altered(saved: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the saved model whose tensors and configuration went through the given functions."""

    def alter(tensors: Change | None = None, config: Change | None = None, name: str = "altered") -> Path:
        folder = tmp_path / name
        shutil.copytree(saved, folder)
        if tensors is not None:
            held = load_file(folder / "model.safetensors")
            tensors(held)
            save_file(held, folder / "model.safetensors", {"format": "pt"})
        if config is not None:
            written = json.loads((folder / "config.json").read_text())
            config(written)
            (folder / "config.json").write_text(json.dumps(written))
        return folder

    return alter
