"""``bathyscope prune exit-advice`` prints what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.surgery.exits import times
from bathyscope.surgery.exits.times import Times, Timings

SHORT = ["--new-tokens", "6", "--longest", "2", "--quiet"]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that need not be measured."""
    known = Times(5, np.ones(9), np.full(9, 0.5), np.array(0.1), np.array(0.2))
    monkeypatch.setattr(times, "measured", lambda model, ids, longest: Timings.exact(known))


def test_rows_are_the_arrays(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, asked = (
        tmp_path / "exits.svg",
        ["prune", "exit-advice", str(model_folder), "--prompts", str(prompts_file), *SHORT],
    )
    assert main([*asked, "--format", "csv", "--out", str(picture)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    found = bathyscope.exit_advice(model_folder, str(prompts_file), new_tokens=6, longest=2, progress=False)
    assert [int(row["exit"]) for row in rows] == [1, 2, 3, 4]
    for name in ("acceptance", "tokens_per_pass", "speed"):
        assert [float(row[name]) for row in rows] == found.table[name].tolist()
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_the_record_has_the_conclusion(
    model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["prune", "exit-advice", str(model_folder), "--prompts", str(prompts_file), *SHORT, "--format", "json"])
        == 0
    )
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "exits"
    assert record["conclusion"].startswith(("Draft with the first", "Not recommended: no exit"))
    assert [row["exit"] for row in record["exits"]] == [1, 2, 3, 4]
    assert len(record["model"]["weight_hash"]) == 64


def test_the_table_stands_above_the_advice(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tmp_path / "others.jsonl"
    others.write_text("\n".join(json.dumps({"text": text}) for text in ("the old road", "a light was seen in it")))
    asked = ["prune", "exit-advice", str(model_folder), "--prompts", str(prompts_file), "--verify", str(others), *SHORT]
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert "Exits of 5 blocks, each with the draft that pays most" in out
    exits = {line[:4].strip() for line in out.splitlines() if line[:4].strip()[:1].isdigit()}
    assert exits == {"1", "2", "3", "4"}
    assert "Run on 2 other prompts" in " ".join(out.split())


def test_an_unknown_kind_of_figure_is_refused_first(
    model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["prune", "exit-advice", str(model_folder), "--prompts", str(prompts_file), "--out", "exits.bmp"]
    assert main(asked) == 2
    assert "Figure format 'bmp' is unknown; allowed: png, svg, pdf." in capsys.readouterr().err
