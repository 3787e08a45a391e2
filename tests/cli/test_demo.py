"""``bathyscope demo``, with a tiny model in the bundled one's place."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from bathyscope.cli import main
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run

DEMO = "bathyscope.pages.demonstration"


def captions(runs: list[Run], out: Path) -> Path:
    """Stands in for the report: writes the runs' captions."""
    out.write_text("\n".join(run.caption() for run in runs), encoding="utf-8")
    return out


@pytest.mark.contract
def test_demo_ends_with_the_report_and_the_verdict(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(f"{DEMO}.model_path", lambda: model_folder)
    monkeypatch.setattr(f"{DEMO}.prompts_path", lambda: prompts_file)
    # drawing has its own tests, and takes longer than all the rest
    monkeypatch.setattr(import_module("bathyscope.pages.page"), "report", captions)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--quiet"]) == 0
    printed = capsys.readouterr().out
    run = open_run(out)
    wanted = {"residual", "lens", "skip", "drop", "swap", "repeat", "tokens", "effective_depth", "noise"}
    assert set(run.measures) == wanted
    assert run.caption().startswith("bundled model on bundled prompts: 3 prompts")
    assert "centre of mass" in printed
    assert printed.splitlines()[-1] == f"Report: {out / 'report.html'}"
    assert " ".join(printed.split()).count(run.verdict.text) == 1
    assert (out / "report.html").read_text(encoding="utf-8") == run.caption()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    # a second time everything is there already
    assert main(["demo", "--out", str(out), "--quiet"]) == 0


def test_a_missing_bundle_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{DEMO}.model_path", lambda: tmp_path)
    assert main(["demo", "--out", str(tmp_path / "out")]) == 4
    printed, said = capsys.readouterr()
    assert printed == ""
    assert f"The bundled model is missing from {tmp_path}: this installation is incomplete" in said
    assert not (tmp_path / "out").exists()


def test_a_real_model_is_the_stored_one_where_no_hub_can_be_reached(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page says which of the two weights it measured."""
    monkeypatch.setattr(f"{DEMO}.stored_smollm2", lambda: model_folder)
    monkeypatch.setattr(f"{DEMO}.prompts_path", lambda: prompts_file)
    monkeypatch.setattr(import_module("bathyscope.pages.page"), "report", captions)
    out = tmp_path / "demo"
    assert main(["demo", "--real", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert (
        "Surveying HuggingFaceTB/SmolLM2-135M-Instruct: residual, lens, skip, drop, tokens, effective_depth. 270 MB"
        in told
    )
    run = open_run(out)
    assert set(run.measures) == {"residual", "lens", "skip", "drop", "tokens", "effective_depth", "noise"}
    assert run.caption().startswith("SmolLM2-135M-Instruct unpacked from Q4_1 on bundled prompts: 3 prompts")


def test_without_hub_and_copy_the_way_to_a_real_model_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{DEMO}.stored_smollm2", lambda: tmp_path)
    assert main(["demo", "--real", "--out", str(tmp_path / "out"), "--quiet"]) == 4
    told = capsys.readouterr().err
    assert "HuggingFaceTB/SmolLM2-135M-Instruct is not stored here and cannot be downloaded." in told
    assert "run python -m studies.real_model fetch in a checkout of bathyscope" in told
    assert not (tmp_path / "out").exists()
