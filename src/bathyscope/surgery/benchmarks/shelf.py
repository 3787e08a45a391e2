"""An evaluation on disk: a manifest of its settings and its files, and one result file per schedule and task."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import StoreError
from bathyscope.runs.difference import require_same
from bathyscope.runs.folder import MOST_DEEP, Kind, folder_path, plain_name, read_manifest, unreadable, verified
from bathyscope.runs.pieces import Pieces

EVALUATION = Kind("evaluation", "bathyscope evaluate", "evaluation.json", schemas=(1, 2))
_RESULTS = "results"

Score = Mapping[str, Any]


class Shelf(Pieces):
    """The folder of an evaluation, opened for writing; made where it does not exist.

    More schedules and tasks may be added later; the model and the settings (whatever else could change a number) must
    stay. A StoreError where the folder holds something else, or another process writes it.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._tasks: dict[str, dict[str, Any]] = {}
        super().__init__(path, EVALUATION, settings)

    def read_tree(self, tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        current = _upgrade_manifest(self.path, tree)
        self._tasks = current["record"]["tasks"]
        return current["identity"], current["record"]["files"]

    def record(self, files: Mapping[str, str]) -> dict[str, Any]:
        return {"record": {"tasks": self._tasks, "files": files}}

    def begin(self, task: str, hashes: Mapping[str, str], source: str | None) -> None:
        """Register a task, with hashes of what is asked and how it is scored, and where its documents come from.

        A StoreError where the folder's results of this task come from others.
        """
        entry = self._tasks.setdefault(task, {**hashes, "source": source})
        # Other requests under the same name (another version of the task, or other rows) are another benchmark; so are
        # other right answers, metrics or tokens. Earlier versions stored a hash of the requests alone.
        stored = {name: entry[name] for name in hashes if name in entry}
        require_same(self.path, EVALUATION, {task: stored}, {task: {name: hashes[name] for name in stored}})
        entry.update(hashes)
        self.enter()

    def score(self, schedule: str, task: str) -> Score | None:
        """Return a finished result, or None."""
        name = _file_name(schedule, task)
        content = self.find(name)
        return None if content is None else _read_score(self.path, name, content)

    def keep(self, schedule: str, task: str, score: Score) -> None:
        """Write a finished result; it is wholly there or not at all."""
        content = {"schedule": schedule, "task": task, **score}
        self.put(_file_name(schedule, task), json.dumps(content, allow_nan=False).encode())


def is_evaluation(folder: object) -> bool:
    """Return whether a folder is one that ``bathyscope evaluate --out`` wrote."""
    # os.path, not Path, which raises where a text is longer than a file's name may be
    manifest = EVALUATION.manifest
    return isinstance(folder, str | Path) and os.path.isfile(os.path.join(os.path.expanduser(folder), manifest))


def read_evaluation(folder: str | Path) -> tuple[dict[str, Any], list[Score]]:
    """Return the settings of an evaluation, and all its finished results."""
    path = folder_path(folder)
    tree = _upgrade_manifest(path, read_manifest(path, EVALUATION))
    files: Mapping[str, str] = tree["record"]["files"]
    stored = [name for name in sorted(files) if name.startswith(_RESULTS)]
    return tree["identity"], [
        _read_score(path, name, verified(path, name, files[name], EVALUATION.noun)) for name in stored
    ]


def _upgrade_manifest(path: Path, tree: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest in the latest schema; the first had the settings next to ``tasks``, and no hashes."""
    try:
        if tree["schema"] == 1:
            results = sorted((path / _RESULTS).glob("*/[!.]*.json"))
            files = {
                file.relative_to(path).as_posix(): hashlib.sha256(read_regular(file, path)).hexdigest()
                for file in results
            }
            identity = {name: value for name, value in tree.items() if name not in ("schema", "tasks")}
            return {"identity": identity, "record": {"tasks": dict(tree["tasks"]), "files": files}}
        record = {name: dict(tree["record"][name]) for name in ("tasks", "files")}
        for name in record["files"]:
            plain_name(name)
        return {"identity": dict(tree["identity"]), "record": record}
    except (*DAMAGED, StoreError) as error:
        raise unreadable(str(path / EVALUATION.manifest), EVALUATION, error) from error


def _read_score(folder: Path, name: str, content: bytes) -> Score:
    try:
        score: Score = dict(read_json(content, MOST_DEEP))
        if not isinstance(score["schedule"], str) or not isinstance(score["task"], str):
            raise TypeError("its schedule and task are no texts")
        if not all(
            isinstance(result, dict) and {"value", "stderr"} <= result.keys() for result in score["metrics"].values()
        ):
            raise TypeError("its metrics have no value and stderr")
        if not all(isinstance(one, dict) and {"loglikelihoods", "right"} <= one.keys() for one in score["documents"]):
            raise TypeError("its documents have no loglikelihoods and right answer")
    except DAMAGED as error:
        raise StoreError(
            f"{str(folder / name)!r} cannot be read ({type(error).__name__}: {elided(error, 80)}). Delete it and run "
            "the same command again."
        ) from error
    return score


def _file_name(schedule: str, task: str) -> str:
    safe = schedule.replace(":", "-").replace(",", "_")
    if len(safe) > 80:  # an order written out may be longer than a file's name
        safe = f"order-{hashlib.sha256(schedule.encode()).hexdigest()[:16]}"
    return f"{_RESULTS}/{safe}/{task}.json"
