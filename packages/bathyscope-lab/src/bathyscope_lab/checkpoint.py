"""Where a run can be taken up again: tensors in safetensors, the rest in JSON, a folder whole or absent.

The library's own checkpoints hold pickles, which run code when they are read; nothing here does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn
from transformers import TrainerState

from bathyscope.errors import ModelError, StoreError, warn

KEPT = 2
"""How many checkpoints stay on disk; one would be lost if the disk filled up while it is replaced."""

PARTIAL = ".partial-"
WEIGHTS, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
PROGRESS = "progress.json"
TRAINER_STATE = "trainer_state.json"
"""As the library calls it, which reads it itself when a run goes on."""

_NAME = re.compile(r"step-\d{7}")


def latest(folder: Path) -> Path | None:
    """The newest whole checkpoint, or None."""
    return next((path for path in _newest_first(folder) if _damage(path) is None), None)


def to_resume(folder: Path) -> Path | None:
    """The checkpoint to go on from: the newest whole one, with a warning where newer ones are damaged; None = none yet.

    Raises:
        StoreError: there are checkpoints, and all are damaged.
    """
    damaged: list[str] = []
    for path in _newest_first(folder):
        damage = _damage(path)
        if damage is None:
            for what in damaged:
                warn(f"{what}; going on from the older {path.name}, the steps since are taken again.")
            return path
        damaged.append(f"{path} is damaged ({damage})")
    if damaged:
        raise StoreError(
            f"{damaged[0]}, and no whole checkpoint lies beside it. Put a copy of it back, or remove {folder} to begin "
            "again with the same command."
        )
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)), reverse=True)


def _damage(path: Path) -> str | None:
    """What of a checkpoint is missing or cut off; None where all of it can be read."""
    for name in (WEIGHTS, OPTIMIZER, RANDOM):
        try:
            with safe_open(path / name, "pt"):  # compares the file's length with what its header promises
                pass
        except (OSError, SafetensorError) as error:
            return f"{name}: {error}"
    for name in (PROGRESS, TRAINER_STATE):
        try:
            dict(json.loads((path / name).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            return f"{name}: {error}"
    return None


def not_finite(model: nn.Module) -> str | None:
    """The first parameter that holds a NaN or an infinity, or None. (Of buffers, masks may hold infinities.)"""
    return next((name for name, tensor in model.named_parameters() if not bool(tensor.isfinite().all())), None)


def diverged(what: str, folder: Path) -> ModelError:
    """What to say when a loss, a gradient or a weight is not finite.

    Args:
        what: is not finite, and when.
        folder: of all checkpoints of the run.
    """
    last = latest(folder)
    kept = f"The last checkpoint before, {last}, is kept" if last is not None else "There is no checkpoint before"
    return ModelError(
        f"{what}: training has diverged. Lower optimisation.learning_rate, or lengthen optimisation.warmup_steps; that "
        f"makes another recipe, which needs a new folder (--out). {kept}."
    )


def save(
    folder: Path, step: int, model: nn.Module, optimizer: Any, progress: Mapping[str, Any], state: TrainerState
) -> Path:
    """Write ``folder/step-XXXXXXX`` under another name, force it to the disk, rename it, and remove older ones.

    Args:
        folder: of all checkpoints of a run.
        step: how many steps are done.
        model: whose parameters and buffers are kept, tied ones once.
        optimizer: whose running means are kept.
        progress: what else is needed, as JSON takes it.
        state: the library's own counters.

    Raises:
        StoreError: it cannot be written; earlier checkpoints are untouched.
    """
    final = folder / f"step-{step:07d}"
    temporary = folder / f"{PARTIAL}{final.name}"
    try:
        remove_partial(folder)
        temporary.mkdir(parents=True)
        save_model(model, str(temporary / WEIGHTS))
        save_file(_optimizer_tensors(optimizer), temporary / OPTIMIZER)
        save_file(_random_states(), temporary / RANDOM)
        (temporary / PROGRESS).write_text(json.dumps(dict(progress)), encoding="utf-8")
        state.save_to_json(str(temporary / TRAINER_STATE))
        for path in temporary.iterdir():
            _force_to_disk(path)
        if final.exists():
            shutil.rmtree(final)
        os.replace(temporary, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise unwritable(final, error, latest(folder)) from error
    _remove_all_but(folder, final)
    return final


def _remove_all_but(folder: Path, final: Path) -> None:
    """Keep ``final`` and what came just before it; later ones are damaged, and were not gone on from."""
    found = _newest_first(folder)
    at = found.index(final)
    for path in (*found[:at], *found[at + KEPT :]):
        shutil.rmtree(path)


def unwritable(path: Path, error: Exception, last: Path | None) -> StoreError:
    """What to say when a checkpoint cannot be written."""
    reason = getattr(error, "strerror", None) or str(error)
    kept = f"the last good checkpoint, {last.name}, is kept" if last is not None else "there is no earlier checkpoint"
    return StoreError(
        f"{path} cannot be written: {reason}. Free some space or mend the folder, then give the same command again "
        f"to go on; {kept}."
    )


def load_weights(path: Path, model: nn.Module) -> None:
    """Put a checkpoint's weights into ``model``, tied tensors staying tied."""
    load_model(model, str(path / WEIGHTS))


def load_optimizer(path: Path, optimizer: Any) -> None:
    """Put a checkpoint's running means into ``optimizer``."""
    state = optimizer.state_dict()
    state["state"] = {}
    for key, tensor in load_file(path / OPTIMIZER).items():
        number, name = key.split("/")
        state["state"].setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict(state)


def load_random_states(path: Path) -> None:
    """Put torch's generators where they were; dropout draws from them."""
    stored = load_file(path / RANDOM)
    torch.set_rng_state(stored["cpu"])
    for number in range(torch.cuda.device_count()):
        if f"cuda/{number}" in stored:
            torch.cuda.set_rng_state(stored[f"cuda/{number}"], number)


def load_progress(path: Path) -> dict[str, Any]:
    """What was given as ``progress``."""
    return dict(json.loads((path / PROGRESS).read_text(encoding="utf-8")))


def remove_partial(folder: Path) -> None:
    """Remove what a killed process left behind."""
    for path in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(path)


def _optimizer_tensors(optimizer: Any) -> dict[str, torch.Tensor]:
    return {
        f"{number}/{name}": torch.as_tensor(value)
        for number, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }


def _random_states() -> dict[str, torch.Tensor]:
    states = {"cpu": torch.get_rng_state()}
    return {**states, **{f"cuda/{n}": torch.cuda.get_rng_state(n) for n in range(torch.cuda.device_count())}}


def _force_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
