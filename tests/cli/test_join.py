"""``bathyscope survey --part`` and ``bathyscope survey join``: from a command line to the run of a single process."""

from __future__ import annotations

from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:skip. .* too short for a sampled position")


def test_parts_lie_in_folders_of_their_own_and_are_joined(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["survey", str(model_folder), "--prompts", str(prompts_file), "--measures", "lens,skip"]
    asked += ["--batch-tokens", "20", "--quiet"]
    assert main([*asked, "--out", "whole"]) == 0
    for number in (1, 2):
        assert main([*asked, "--part", f"{number}/2"]) == 0
    parts = sorted(map(str, Path("runs").glob("*")))
    assert [part.rpartition("-part-")[2] for part in parts] == ["1-2", "2-2"]
    capsys.readouterr()
    assert main(["survey", "join", *parts, "--out", "joined"]) == 0
    whole, joined = bathyscope.open("whole"), bathyscope.open("joined")
    assert joined.verdict.text == whole.verdict.text
    assert capsys.readouterr().out.startswith(joined.verdict.text.split(".")[0])
    for name in whole.measures:
        assert joined[name].identical(whole[name])


def test_a_folder_that_is_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "join", str(tmp_path), "--out", str(tmp_path / "run")]) != 0
    assert "There is no run in" in capsys.readouterr().err


def test_a_join_into_one_of_its_parts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    assert main(["survey", "join", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err == (
        f"error: out={str(tmp_path / 'a')!r} is one of the parts. Give another folder for the joined run (--out).\n"
    )
