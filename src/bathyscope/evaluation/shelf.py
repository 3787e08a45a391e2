"""An evaluation on disk: one file for the model and its settings, one result file per schedule and task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bathyscope.errors import StoreError
from bathyscope.store.atomic import remove_partial, write_atomically
from bathyscope.store.lock import RunLock

_SETTINGS = "evaluation.json"
_RESULTS = "results"
_SCHEMA = 1

Score = Mapping[str, Any]


class Shelf:
    """The folder of an evaluation, opened for writing.

    More schedules and tasks may be added later; the model and the settings must stay.

    Args:
        folder: made where it does not exist.
        settings: whatever else could change a number: the model, its weights, the limit …

    Raises:
        StoreError: the folder holds another evaluation or something else, or another process writes it.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        wanted = json.loads(json.dumps({"schema": _SCHEMA, **settings, "tasks": {}}))
        try:
            if folder.is_dir() and any(folder.iterdir()) and not (folder / _SETTINGS).exists():
                raise StoreError(f"{str(folder)!r} holds other files and no evaluation; give another folder (--out).")
            (folder / _RESULTS).mkdir(parents=True, exist_ok=True)
            self._lock = RunLock(folder)
        except OSError as error:
            raise StoreError(f"{str(folder)!r} cannot be written ({error.strerror}); give another folder.") from error
        try:
            remove_partial(folder)
            self._settings = read_settings(folder) if (folder / _SETTINGS).exists() else wanted
            _require_same(folder, self._settings, wanted)
            self._save()
        except BaseException:
            self._lock.release()
            raise

    def begin(self, task: str, requests: str, source: str | None) -> None:
        """Registers a task.

        Args:
            task: its name.
            requests: hash of all its requests.
            source: where its documents come from, for the record.

        Raises:
            StoreError: the folder's results of this task come from other requests.
        """
        known = self._settings["tasks"].setdefault(task, {"requests": requests, "source": source})
        _require_same(self.folder, {"requests": known["requests"]}, {"requests": requests}, task)
        self._save()

    def find(self, schedule: str, task: str) -> Score | None:
        """A finished result, or None."""
        path = _path(self.folder, schedule, task)
        return read_score(path) if path.exists() else None

    def keep(self, schedule: str, task: str, score: Score) -> None:
        """Writes a finished result; it is wholly there or not at all."""
        content = {"schedule": schedule, "task": task, **score}
        path = _path(self.folder, schedule, task)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(content, allow_nan=False).encode())

    def write(self, name: str, content: bytes) -> None:
        """A file derived from all results."""
        write_atomically(self.folder / name, content)

    def close(self) -> None:
        """Lets other processes write."""
        self._lock.release()

    def _save(self) -> None:
        write_atomically(self.folder / _SETTINGS, json.dumps(self._settings, indent=2).encode())


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of an evaluation.

    Raises:
        StoreError: the folder holds none, or one that cannot be read.
    """
    path = folder / _SETTINGS
    if not path.is_file():
        raise StoreError(
            f"{str(folder)!r} holds no evaluation (no {_SETTINGS}); give the --out of bathyscope evaluate."
        )
    found = _json(path, "The evaluation must be computed anew in another folder.")
    if found.get("schema") != _SCHEMA:
        raise StoreError(f"{path} has layout {found.get('schema')!r}; this version reads layout {_SCHEMA}.")
    return found


def read_scores(folder: Path) -> Iterator[Score]:
    """All finished results."""
    for path in sorted((folder / _RESULTS).glob("*/*.json")):
        if not path.name.startswith("."):
            yield read_score(path)


def read_score(path: Path) -> Score:
    """One finished result."""
    return _json(path, "Delete it and run the same command again to compute it anew.")


def _json(path: Path, advice: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(path)!r} cannot be read ({error}). {advice}") from error
    if not isinstance(found, dict):
        raise StoreError(f"{str(path)!r} holds no object. {advice}")
    return found


def _path(folder: Path, schedule: str, task: str) -> Path:
    safe = schedule.replace(":", "-").replace(",", "_")
    if len(safe) > 80:  # an order written out may be longer than a file's name
        safe = f"order-{hashlib.sha256(schedule.encode()).hexdigest()[:16]}"
    return folder / _RESULTS / safe / f"{task}.json"


def _require_same(folder: Path, kept: Mapping[str, Any], asked: Mapping[str, Any], task: str = "") -> None:
    where = f" of {task}" if task else ""
    for name in {**kept, **asked}:
        if name != "tasks" and kept.get(name) != asked.get(name):
            raise StoreError(
                f"{str(folder)!r} holds an evaluation with another {name}{where}: {kept.get(name)!r}, asked for "
                f"{asked.get(name)!r}. Give the same settings, or another folder (--out)."
            )
