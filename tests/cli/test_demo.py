"""``bathyscope demo``, with a tiny model in the bundled one's place."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
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


REAL_MODELS = {
    "smollm2": (
        [],
        "smollm2-135m-instruct-q4_1",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "270 MB",
        "SmolLM2-135M-Instruct unpacked from Q4_1",
        "python -m studies.real_model fetch in a checkout",
    ),
    "gemma3": (
        ["--model", "gemma3"],
        "gemma-3-270m-q4_k_m",
        "google/gemma-3-270m",
        "540 MB",
        "Gemma 3 270M unpacked from Q4_K_M",
        "python -m studies.real_model fetch --model gemma3 --accept-terms in a checkout",
    ),
}


def store(real: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a folder the stored copy of a pretrained model."""
    place = import_module(DEMO)
    monkeypatch.setattr(place, "REAL", {**place.REAL, real: replace(place.REAL[real], stored=lambda: folder)})


@pytest.mark.parametrize("real", REAL_MODELS)
def test_a_real_model_is_the_stored_one_where_no_hub_can_be_reached(
    real: str,
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page says which of the two weights it measured."""
    flags, place, hub, size, name, _ = REAL_MODELS[real]
    assert import_module(DEMO).REAL[real].stored().name == place
    store(real, model_folder, monkeypatch)
    monkeypatch.setattr(f"{DEMO}.prompts_path", lambda: prompts_file)
    monkeypatch.setattr(import_module("bathyscope.pages.page"), "report", captions)
    out = tmp_path / "demo"
    assert main(["demo", "--real", *flags, "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert f"Surveying {hub}: residual, lens, skip, drop, tokens, effective_depth. {size}" in told
    run = open_run(out)
    assert set(run.measures) == {"residual", "lens", "skip", "drop", "tokens", "effective_depth", "noise"}
    assert run.caption().startswith(f"{name} on bundled prompts: 3 prompts")


@pytest.mark.parametrize("real", REAL_MODELS)
def test_without_hub_and_copy_the_way_to_a_real_model_is_said(
    real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags, _, hub, _, _, fetch = REAL_MODELS[real]
    store(real, tmp_path, monkeypatch)
    assert main(["demo", "--real", *flags, "--out", str(tmp_path / "out"), "--quiet"]) == 4
    told = capsys.readouterr().err
    assert f"{hub} is not stored here and cannot be downloaded." in told
    assert f"run {fetch} of bathyscope" in told
    assert not (tmp_path / "out").exists()


def test_a_pretrained_model_is_named_for_a_real_demo_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--model", "gemma3", "--out", str(tmp_path / "out")]) == OptionError.exit_code
    printed, told = capsys.readouterr()
    assert printed == ""
    assert told.splitlines() == [
        "error: model= (--model) says which pretrained model is surveyed; give real=True (--real) with it."
    ]
    with pytest.raises(OptionError, match=r"^model='llama' is unknown\..* Allowed: smollm2, gemma3\.$"):
        bathyscope.demo(tmp_path / "out", real=True, model="llama")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
