"""A survey by workers on a Ray cluster writes the files of a single process, whatever happens to them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support import waves, workers, zoo

import bathyscope
from bathyscope import Prompt

pytest.importorskip("ray")

MEASURES = ["lens", "skip", "effective_depth"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as a checkpoint, which workers load by its name."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    waves.loaded("llama").hf.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def an_importable_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are processes of their own, which find the package where this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


def prompts() -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), (20, 13, 17, 26, 14, 15, 21, 12))
    return [Prompt(ids=own, answer_tokens=2, labels={"level": n // 2}) for n, own in enumerate(ids)]


def survey(folder: Path, out: Path, measures: Any = None, **options: Any) -> bathyscope.Run:
    asked = MEASURES if measures is None else measures
    return bathyscope.survey(folder, prompts(), asked, out, batch_tokens=30, progress=False, **options)


def hashes(run: Path) -> dict[str, str]:
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.suffix in (".nc", ".jsonl")
    }


def test_files_are_those_of_a_single_process_also_when_a_worker_was_killed(folder: Path, tmp_path: Path) -> None:
    """One start of Ray for all: an own measure kills the first worker that computes the second shard."""
    mark = tmp_path / "killed"
    measures = ["lens", workers.Deadly({"mark": str(mark)})]
    with workers.shipped(), pytest.warns(UserWarning, match=r"A worker was lost \(The actor died .*another one takes"):
        found = survey(folder, tmp_path / "many", measures, engine="ray", workers=2)
    assert mark.exists()
    whole = survey(folder, tmp_path / "one", measures)
    assert hashes(tmp_path / "many") == hashes(tmp_path / "one")
    assert len(hashes(tmp_path / "many")) == 6 + 2
    assert found.identity == whole.identity
    assert found.verdict.text == whole.verdict.text
