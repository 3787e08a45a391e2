"""``bathyscope diff cka`` prints what the Python call gives."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main


def test_rows_are_the_arrays(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        "the old house stood",
        "a light was seen in it",
        "the road turned to the hills",
        "the village and the road",
    ]
    prompts = tmp_path / "four.jsonl"
    prompts.write_text("\n".join(f'{{"text": "{text}"}}' for text in texts), encoding="utf-8")
    both = ["diff", "cka", str(model_folder), str(model_folder), "--prompts", str(prompts), "--quiet"]
    assert main([*both, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    found = bathyscope.cka(model_folder, model_folder, str(prompts))
    assert len(rows) == found["cka"].size == found.sizes["tokens"] * 6 * 6
    row = rows[9]
    value = found["cka"].sel(tokens=row["tokens"]).values[int(row["boundary"]), int(row["boundary_other"])]
    assert float(row["cka"]) == value
    assert main(both) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    best = found["cka"].sel(tokens="last").values.max(axis=1)
    assert f"have a CKA of {best.min():.2f} to {best.max():.2f} with their most similar boundaries" in first
    assert first.endswith("Intervals of 95%.")


def test_options_of_the_measure_are_checked(
    model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["diff", "cka", str(model_folder), str(model_folder), "--prompts", str(prompts_file), "--quiet"]
    assert main([*both, "--batch", "1"]) == 2
    assert "batch=1 is out of range; allowed: 4 to 4096." in capsys.readouterr().err
