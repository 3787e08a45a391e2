"""The folder of an evaluation: hashed, read also where an earlier version wrote it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bathyscope.errors import StoreError
from bathyscope.surgery.benchmarks import open_evaluation
from bathyscope.surgery.benchmarks.shelf import Shelf, read_evaluation

KEPT = Path(__file__).parent / "fixtures" / "evaluation-of-schema-1"


def settings_of(folder: Path) -> dict[str, Any]:
    return read_evaluation(folder)[0]


def test_a_result_that_was_altered_is_refused_though_it_can_be_read(tmp_path: Path) -> None:
    shutil.copytree(KEPT, tmp_path / "own")
    with Shelf(tmp_path / "own", settings_of(KEPT)) as shelf:
        assert shelf.score("drop:5", "arc_easy") is not None
    altered = tmp_path / "own" / "results" / "drop-5" / "arc_easy.json"
    altered.write_text(altered.read_text(encoding="utf-8").replace("0.5", "0.75"), encoding="utf-8")
    with pytest.raises(StoreError, match=r"arc_easy\.json' is not the file that was written"):
        open_evaluation(tmp_path / "own")


def test_an_evaluation_of_the_first_schema_opens_and_grows(tmp_path: Path) -> None:
    frame = open_evaluation(KEPT).to_dataframe().set_index(["schedule", "metric"])
    assert frame.loc[("drop:5", "loglikelihood"), "difference"] == pytest.approx(2.506981, abs=1e-6)
    shutil.copytree(KEPT, tmp_path / "own")
    settings = settings_of(KEPT)
    with Shelf(tmp_path / "own", settings) as shelf:
        score = shelf.score("drop:5", "arc_easy")
        assert score is not None
        shelf.keep("drop:6", "arc_easy", {**score, "schedule": "drop:6"})
    assert list(open_evaluation(tmp_path / "own").data["schedule"].values) == ["standard", "drop:5", "drop:6"]
    with pytest.raises(StoreError, match="limit: evaluation has 2, asked for 3"):
        Shelf(tmp_path / "own", {**settings, "limit": 3})


def test_manifests_of_another_form_are_refused(tmp_path: Path) -> None:
    for content in ('{"schema": 2}', '{"schema": 1, "tasks": 3}', '{"schema": 2, "identity": {}, "record": []}', "["):
        (tmp_path / "evaluation.json").write_text(content)
        with pytest.raises(StoreError, match=r"evaluation\.json' is not a readable manifest of an evaluation"):
            open_evaluation(tmp_path)
    record = {"tasks": {}, "files": {"results/../../x.json": "a"}}
    (tmp_path / "evaluation.json").write_text(json.dumps({"schema": 2, "identity": {}, "record": record}))
    with pytest.raises(StoreError, match="is not the plain name of a file"):
        open_evaluation(tmp_path)
