"""``bathyscope compare solved`` prints what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    lines = [{"text": "the old house stood", "answer": "stood", "id": "a"}, {"text": "the road turned", "id": "b"}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def test_rows_are_the_arrays(model_folder: Path, questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compare", "solved", str(model_folder), "--prompts", str(questions), "--quiet", "--format", "csv"]) == 0
    )
    first, second = csv.DictReader(io.StringIO(capsys.readouterr().out))
    with pytest.warns(UserWarning, match="1 of 2 prompts"):
        found = bathyscope.solved(model_folder, str(questions), progress=False)
    assert first["prompt"] == "a"
    assert float(first["answer_logprob"]) == float(found["answer_logprob"][0])
    assert (second["prompt"], second["solved"], second["answer_logprob"]) == ("b", "", "")


def test_the_table_counts(model_folder: Path, questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "solved", str(model_folder), "--prompts", str(questions), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[0] in (
        "0 of 1 prompt with an answer is solved.",
        "1 of 1 prompt with an answer is solved.",
    )
