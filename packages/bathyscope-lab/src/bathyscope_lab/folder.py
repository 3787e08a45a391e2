"""The folder of a run: its recipe, what is prepared once, a line for every step, and the finished checkpoint."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bathyscope.core.atomic import write_atomically
from bathyscope.errors import BathyscopeError, OptionError, StoreError
from bathyscope.runs.folder import LOCK, OWNER, FolderLock
from bathyscope_lab import checkpoint
from bathyscope_lab.recipe import Recipe

RECIPE, METRICS, SUMMARY, CARD, CURVE = "recipe.yaml", "metrics.jsonl", "training.json", "README.md", "loss.png"

BEFORE, AFTER = "before", "after"
"""Folders of the surveys of the checkpoint that is trained further, and of the finished one."""

FULL = (errno.ENOSPC, errno.EDQUOT)


class RunFolder:
    """The files of one run.

    Args:
        path: of the folder.
        recipe: what is carried out there.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path, self.recipe = path, recipe
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.stream = path / "stream.npy"
        self.steps = path / "steps"
        self.finished = path / f"{checkpoint.PARTIAL}finished"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The exclusive right to write here; a run that is refused before it begins leaves nothing in a new folder.

        Raises:
            StoreError: another process writes, something was trained here by another recipe, or the folder cannot be
                written, now or later when the disk is full.
        """
        is_new = not self.path.exists()
        try:
            self._refuse_others_files()
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(self.path, "training run")
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}; give another folder.") from error
        try:
            self._claim()
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise checkpoint.unwritable(self.path, error, checkpoint.latest(self.checkpoints)) from error
        except BathyscopeError:
            if is_new and not self._has_begun() and not (self.path / BEFORE).exists():
                shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            lock.release()

    def _refuse_others_files(self) -> None:
        if not self.path.is_dir() or (self.path / RECIPE).is_file():
            return
        names = sorted(path.name for path in self.path.iterdir())
        strange = [name for name in names if name not in (LOCK, OWNER) and not name.startswith(checkpoint.PARTIAL)]
        if strange:
            raise StoreError(f"{self.path} holds {strange[0]} but no training run; give an empty or a new folder.")

    def _claim(self) -> None:
        """Write the recipe down, also over another one by which nothing has been trained here.

        A finished model keeps the one that it was trained by: its hash leaves out what only says what is kept.
        """
        path = self.path / RECIPE
        if path.is_file() and self._is_of_this_recipe(path.read_text(encoding="utf-8")):
            if self.summary() is not None:
                return
        elif path.is_file():
            if self._has_begun():
                raise StoreError(
                    f"{self.path} belongs to another recipe (its {RECIPE} differs from the one given); give the same "
                    "recipe to go on, or another folder."
                )
            self._remove_prepared()
        write_atomically(path, self.recipe.to_yaml().encode())

    def _is_of_this_recipe(self, text: str) -> bool:
        """Whether a recipe that was written down makes the same model."""
        try:
            return Recipe.from_dict(yaml.safe_load(text)).hash() == self.recipe.hash()
        except (OptionError, yaml.YAMLError, TypeError, ValueError):
            return False

    def _has_begun(self) -> bool:
        """Whether something was trained here; a survey from before knows by itself what it belongs to."""
        saved = any(self.checkpoints.glob("step-*")) or self.summary() is not None
        return saved or bool(self.metrics())

    def _remove_prepared(self) -> None:
        """Remove what was made for the data of another recipe."""
        shutil.rmtree(self.tokenizer, ignore_errors=True)
        self.stream.unlink(missing_ok=True)

    def log(self, record: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All records in order; a line that a killed process left unfinished is not one."""
        path = self.path / METRICS
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def forget_after(self, step: int) -> None:
        """Drop the records of steps that are lost and will be taken again."""
        kept = [record for record in self.metrics() if record["step"] <= step]
        write_atomically(self.path / METRICS, "".join(json.dumps(record) + "\n" for record in kept).encode())

    def summary(self) -> dict[str, Any] | None:
        """What a finished run came to; None while it is not finished."""
        path = self.path / SUMMARY
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def finish(self, summary: dict[str, Any]) -> None:
        """Move the finished checkpoint to its place, and remove what only the run needed."""
        for stale in self.path.glob("*.safetensors*"):
            stale.unlink()
        for path in sorted(self.finished.iterdir()):
            os.replace(path, self.path / path.name)
        self.finished.rmdir()
        write_atomically(self.path / SUMMARY, (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode())
        for folder in (self.checkpoints, self.tokenizer):
            shutil.rmtree(folder, ignore_errors=True)
        self.stream.unlink(missing_ok=True)
