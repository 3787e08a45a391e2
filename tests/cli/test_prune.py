"""``bathyscope prune``: what is printed and kept is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from html import unescape
from pathlib import Path

import pytest
from support import zoo

import bathyscope
from bathyscope.cli import main
from bathyscope.surgery import ledger
from bathyscope.surgery.plan import cells


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two files of six prompts of token ids."""
    folder = tmp_path_factory.mktemp("prompts")
    for seed, role in enumerate(("calibration", "test")):
        rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (12,) * 6, seed)]
        (folder / f"{role}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(folder / "calibration.jsonl"), str(folder / "test.jsonl")


def arguments(model: Path, sources: tuple[str, str], *more: str) -> list[str]:
    calibration, test = sources
    options = ["--random", "2", "--resamples", "200", "--quiet"]
    return ["prune", str(model), "--calibration", calibration, "--test", test, *options, *more]


def test_the_table_is_that_of_the_call_and_is_shown_again(
    model_folder: Path, sources: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pruned"
    assert main(arguments(model_folder, sources, "--drop", "40%", "--out", str(out), "--format", "csv")) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    plan = bathyscope.prune(model_folder, *sources, drop=2, random=2, resamples=200, progress=False)
    assert [row["subset"] for row in rows] == plan.table["subset"].tolist()
    assert [float(row["test_cost"]) for row in rows] == plan.table["test_cost"].tolist()
    assert main(["show", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " ".join(plan.text.split()) in shown
    assert "candidate left out calibration test (interval) KL top-1 p" in shown
    assert bathyscope.show(out).equals(plan.table)


def test_a_report_has_a_section_of_it(
    model_folder: Path, run_folder: Path, sources: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "pruned", tmp_path / "page.html"
    assert main(arguments(model_folder, sources, "--drop", "1", "--out", str(out))) == 0
    assert main(["report", str(run_folder), str(out), "--out", str(page)]) == 0
    plan, written = bathyscope.open_plan(out), unescape(page.read_text(encoding="utf-8"))
    assert plan.text in written
    assert f"Which blocks can go: {model_folder}" in written
    for row in cells(plan.data):
        assert f'<th scope="row">{row[0]}</th>' + "".join(f'<td class="number">{c}</td>' for c in row[1:]) in written
    with pytest.raises(bathyscope.OptionError, match="A report needs at least one run"):
        bathyscope.report([plan], page)
    for words in (["--out", str(page)], ["--figures", str(tmp_path / "figures")]):
        capsys.readouterr()
        assert main(["report", str(out), *words]) == 2
        assert "only what prune wrote was given" in " ".join(capsys.readouterr().err.split())


def test_codes_and_words_of_what_cannot_be_done(
    model_folder: Path, sources: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(model_folder, sources, "--max-cost", "1e-9")) == 6
    assert "error: No block can go: leaving out drop:" in capsys.readouterr().err
    assert main(arguments(model_folder, (sources[0], sources[0]), "--drop", "1")) == 3
    assert "6 of 6 test prompts stand among the calibration prompts too" in capsys.readouterr().err
    assert main(arguments(model_folder, sources, "--drop", "5")) == 2
    assert "allowed: 1 to 4, or a share such as '25%'" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_loses_nothing_that_is_finished(
    number: int,
    model_folder: Path,
    sources: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, made = ledger.tree_costs, []

    def ending(*args: object, **options: object) -> object:
        made.append(1)
        if len(made) == 3:
            os.kill(os.getpid(), number)
        return plain(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger, "tree_costs", ending)
    asked = arguments(model_folder, sources, "--drop", "2", "--out", str(tmp_path / "pruned"))
    assert main(asked) == 130
    assert f"what is finished is kept in {tmp_path / 'pruned'}. To resume: bathyscope prune" in capsys.readouterr().err
    assert len(list((tmp_path / "pruned").rglob("costs/*/*.nc"))) == 2
    monkeypatch.setattr(ledger, "tree_costs", plain)
    assert main(asked) == 0
    plan = bathyscope.prune(model_folder, *sources, drop=2, random=2, resamples=200, progress=False)
    assert bathyscope.open_plan(tmp_path / "pruned").table.equals(plan.table)
