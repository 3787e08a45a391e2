"""The records of the package: a row for every depth of a model and of its controls, and nothing measured twice."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import bathyscope
from bathyscope.extend.prompts import bundled_prompts
from studies.common.program import main
from studies.records import measuring
from studies.records.command import app

PROGRAM = "python -m studies.records"


def test_the_rows_are_those_of_a_survey_and_its_controls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measuring, "SUBJECTS", measuring.SUBJECTS[:1])
    monkeypatch.setattr(measuring, "CONTROLS", 1)
    arguments = ["--data", str(tmp_path), "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "records.csv")]
    assert main([*arguments, "--quiet"], app, PROGRAM) == 0
    with (tmp_path / "records.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    run = bathyscope.open(tmp_path / "runs" / measuring.BUNDLED)
    expected = {"bundled model": run, "bundled model, untrained-0": run.controls["untrained-0"]}
    assert [(row["model"], row["kind"], row["quantity"]) for row in rows] == [
        (name, kind, quantity)
        for name, kind in zip(expected, ("trained", "untrained"))
        for quantity in ("half", "cosine", "kl", "overlap")
    ]
    for row in rows:
        if row["quantity"] == "half":
            depth = expected[row["model"]].verdict.head.tokens.value
            assert float(row["share"]) == pytest.approx(depth / 12, abs=1e-6)
        assert (row["data"], row["source"], row["blocks"]) == ("bundled prompts", "bathyscope", "12")
    before = (tmp_path / "records.csv").read_bytes()
    assert main([*arguments, "--quiet"], app, PROGRAM) == 0
    assert (tmp_path / "records.csv").read_bytes() == before


def test_every_source_is_one_that_a_survey_takes(tmp_path: Path) -> None:
    sources = {subject.name: subject.source(tmp_path) for subject in measuring.SUBJECTS}
    assert sources[measuring.BUNDLED] == str(bundled_prompts())
    assert [source for source in sources.values() if "@" in source] == [
        f"gsm8k:5@{tmp_path / 'gsm8k/test_first600.jsonl'}"
    ] * 2
