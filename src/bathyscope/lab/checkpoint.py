"""Training state on disk: weights and optimiser in safetensors, counters in JSON, whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from bathyscope.errors import StoreError

KEPT = 2
"""How many checkpoints stay on disk; one would be lost if the disk filled up while it is replaced."""


@dataclass
class Progress:
    """How far a run is. ``minutes`` counts training time only, over all its sittings."""

    step: int = 0
    tokens: int = 0
    minutes: float = 0.0


def save(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress, recipe_hash: str
) -> Path:
    """Write ``folder/step_XXXXXXX`` under a temporary name, rename it, and remove older ones."""
    final = folder / f"step_{progress.step:07d}"
    temporary = folder / f"writing_{progress.step:07d}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file(dict(model.named_parameters()), temporary / "model.safetensors")
    save_file(_optimizer_tensors(optimizer), temporary / "optimizer.safetensors")
    content = {"recipe": recipe_hash, **asdict(progress)}
    (temporary / "progress.json").write_text(json.dumps(content), encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    os.replace(temporary, final)
    for old in sorted(folder.glob("step_*"))[:-KEPT]:
        shutil.rmtree(old)
    return final


def latest(folder: Path) -> Path | None:
    """The newest whole checkpoint, or None."""
    found = sorted(folder.glob("step_*"))
    return found[-1] if found else None


def load_weights(path: Path, model: nn.Module) -> None:
    """Copy a checkpoint's weights into ``model`` in place, so that tied tensors stay tied."""
    stored = load_file(path / "model.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(stored[name])


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe_hash: str) -> Progress:
    """Put a checkpoint into ``model`` and ``optimizer``.

    Raises:
        StoreError: the checkpoint belongs to another recipe.
    """
    content = json.loads((path / "progress.json").read_text(encoding="utf-8"))
    given = content.pop("recipe")
    if given != recipe_hash:
        raise StoreError(
            f"{path} was trained with recipe {given}, not {recipe_hash}; resume with the same recipe or "
            "train into another folder."
        )
    load_weights(path, model)
    stored = load_file(path / "optimizer.safetensors")
    state = optimizer.state_dict()
    state["state"] = {}
    for key, tensor in stored.items():
        number, name = key.split("/")
        state["state"].setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict(state)
    return Progress(**content)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{number}/{name}": torch.as_tensor(value)
        for number, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }
