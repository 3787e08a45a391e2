"""``bathyscope diff`` prints what the Python call gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main


def test_the_record_is_the_result(model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["diff", str(model_folder), str(model_folder), "--prompts", str(prompts_file), "--quiet"]
    assert main([*command, "--resamples", "20", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    result = bathyscope.diff(model_folder, model_folder, str(prompts_file), resamples=20)
    assert record == json.loads(json.dumps(result.record()))
    assert record["kind"] == "diff"
    assert record["first"] is None
    assert len(record["blocks"]) == len(result.to_dataframe()) == result.sizes["block"]
    assert main([*command, "--resamples", "20"]) == 0
    assert "are equal up to rounding on these prompts" in capsys.readouterr().out


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--help"]) == 0
    assert "--resamples" in capsys.readouterr().out
