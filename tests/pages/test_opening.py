"""One call opens whatever a command wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages import opening

RUN = synthetic_run(3, 2)


@pytest.mark.parametrize(
    ("marker", "opener"),
    [
        ("prune.json", "bathyscope.surgery.plan.opening.open_plan"),
        ("course.json", "bathyscope.surveying.training.steps.open_course"),
        ("evaluation.json", "bathyscope.surgery.benchmarks.open_evaluation"),
        ("manifest.json", "bathyscope.pages.opening.open_run"),
    ],
)
def test_a_folder_is_opened_as_what_it_is(
    marker: str, opener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / marker).write_text(json.dumps({}))
    monkeypatch.setattr(opener, lambda path, **_: ("opened", Path(path)))
    assert bathyscope.open(tmp_path) == ("opened", tmp_path)
    assert bathyscope.open(str(tmp_path)) == ("opened", tmp_path)


@pytest.mark.parametrize(
    ("name", "opener"),
    [
        ("lens.safetensors", "bathyscope.measures.jacobian.files.open_lens"),
        ("lens.pt", "bathyscope.measures.jacobian.files.open_lens"),
        ("maps.nc", "bathyscope.analysis.between.map_results.open_maps"),
    ],
)
def test_a_file_is_opened_by_its_ending(
    name: str, opener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opener, lambda path: ("opened", Path(path).name))
    assert bathyscope.open(tmp_path / name) == ("opened", name)


def test_partial_reaches_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(opening, "open_run", lambda path, *, partial: partial)
    assert bathyscope.open(tmp_path, partial=True) is True
    assert bathyscope.open("hf://datasets/a/b", partial=True) is True


def test_what_is_nothing_is_refused_as_a_run() -> None:
    with pytest.raises(StoreError, match=r"runs/nowhere"):
        bathyscope.open("runs/nowhere")
    with pytest.raises(StoreError, match=r"lens\.safetensors"):
        bathyscope.open("runs/nowhere/lens.safetensors")
    with pytest.raises(OptionError, match="is no folder"):
        bathyscope.open(3)  # type: ignore[arg-type]
