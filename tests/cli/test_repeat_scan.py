"""``bathyscope prune repeat-scan``: what is printed is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support import zoo

import bathyscope
from bathyscope.cli import main


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A file of six prompts of token ids."""
    path = tmp_path / "prompts.jsonl"
    rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (12,) * 6)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_the_table_is_that_of_the_call(model_folder: Path, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "prune",
        "repeat-scan",
        str(model_folder),
        "--prompts",
        str(prompts),
        "--longest",
        "2",
        "--resamples",
        "100",
        "--quiet",
    ]
    assert main([*asked, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    scan = bathyscope.repeat_scan(model_folder, prompts, longest=2, resamples=100, progress=False)
    assert [row["window"] for row in rows] == scan.table["window"].tolist()
    assert [float(row["cost"]) for row in rows] == scan.table["cost"].tolist()
    assert main(asked) == 0
    assert " ".join(scan.text.split()) in " ".join(capsys.readouterr().out.split())
    assert main([*asked, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["conclusion"]) == ("windows", scan.text)
    assert [row["window"] for row in record["windows"]] == scan.table["window"].tolist()
    assert main([*asked, "--orders", "order:9"]) == 2
    assert "block 9 is out of range" in " ".join(capsys.readouterr().err.split())


def test_a_list_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "repeat-scan", "no/such/model", "--prompts", "none.jsonl", "--orders", " , "]) == 2
    message = "--orders: ' , ' lists nothing; give one item or more, or leave the flag out."
    assert message in " ".join(capsys.readouterr().err.split())
