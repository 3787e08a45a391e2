"""``bathyscope evaluate``: output, files, resuming, and errors before a model is loaded."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from bathyscope.cli import main

pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
pytest.importorskip("accelerate", reason="the extra is not installed: pip install 'bathyscope[eval]'")


@pytest.fixture(scope="module")
def folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with an end-of-text token, and six LAMBADA-like texts beside it."""
    folder = tmp_path_factory.mktemp("evaluated") / "tiny-llama"
    folder.mkdir()
    for file in model_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.eos_token = "</s>"
    tokenizer.save_pretrained(folder)
    texts = [f"the old house stood at the {place}" for place in ("edge", "road", "village", "hills", "light", "old")]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder.parent / "lambada.jsonl").write_text(rows, encoding="utf-8")
    return folder


def arguments(folder: Path, *more: str) -> list[str]:
    data = f"lambada_openai={folder.parent / 'lambada.jsonl'}"
    return ["evaluate", str(folder), "--tasks", "lambada_openai", "--data", data, *more]


def test_csv_and_what_is_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    asked = arguments(folder, "--schedules", "drop,swap:1,repeat:4", "--out", str(out), "--format", "csv")
    assert main(asked) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    names = ["standard", *(f"drop:{block}" for block in range(5)), "swap:1", "repeat:0+4", "repeat:1+4"]
    assert list(dict.fromkeys(row["schedule"] for row in rows)) == names
    assert {row["metric"] for row in rows} == {"acc", "loglikelihood", "perplexity"}
    assert [row["difference"] for row in rows if row["metric"] == "perplexity"] == [""] * 9
    assert all(float(row["stderr"]) >= 0 for row in rows)
    said = [line for line in printed.err.splitlines() if line]  # a slow machine shows a progress bar
    assert (said[0], said[-1]) == (f"Loading {folder}; the results go to {out}.", f"Written: {out}")
    assert len(list(csv.DictReader((out / "evaluation.csv").open(encoding="utf-8")))) == len(rows)
    assert len(list(out.glob("results/*/lambada_openai.json"))) == 9
    assert main(["show", str(out), "--format", "csv"]) == 0
    # schedules in an order of their own, since a folder may hold those of several commands
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(printed.out.splitlines())


def test_one_document_has_no_error(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(folder, "--schedules", "drop:1", "--limit", "1", "--out", str(tmp_path), "--quiet")) == 0
    printed = capsys.readouterr().out
    assert "drop:1" in printed
    assert "nan" not in printed


def test_table_and_json(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = arguments(folder, "--schedules", "drop:1", "--limit", "3", "--out", str(tmp_path), "--quiet")
    assert main(asked) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.split() for line in printed.out.splitlines()]
    assert ["lambada_openai"] in lines
    assert ["Schedule", "acc", "loglikelihood", "perplexity"] in lines
    assert [line[0] for line in lines if line and line[0] in ("normal", "drop:1")] == ["normal", "drop:1"]
    assert main([*asked, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["schedule"]) == ("evaluation", "drop:1")
    assert record["conclusion"] == "1 task (lambada_openai) of the normal model and under 1 schedule (drop:1)."
    found = {(row["schedule"], row["metric"]): row for row in record["results"]}
    dropped = found["drop:1", "loglikelihood"]
    assert dropped["difference"] == pytest.approx(dropped["value"] - found["standard", "loglikelihood"]["value"])
    assert found["drop:1", "perplexity"]["difference"] is None


def test_the_schedule_matters_and_its_reading_is_passed_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = arguments(folder, "--schedules", "repeat:0+1", "--arguments", "slot", "--out", str(tmp_path), "--quiet")
    assert main(asked) == 2
    assert "arguments='slot' needs no more slots than the model has blocks" in capsys.readouterr().err


def test_ctrl_c_says_what_is_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bathyscope.surgery.benchmarks.harness import LoadedLM

    model_call, calls = LoadedLM._model_call, []

    def stopped(self: LoadedLM, *given: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return model_call(self, *given)

    monkeypatch.setattr(LoadedLM, "_model_call", stopped)
    asked = arguments(folder, "--schedules", "drop:1", "--out", str(tmp_path))
    assert main(asked) == 130
    assert f"Interrupted: 1 results are saved in {tmp_path}. To resume: bathyscope evaluate " in capsys.readouterr().err
    assert main(asked) == 0
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["--tasks", "lambada_openai", "--data", "lambada.jsonl"], 2, "--data 'lambada.jsonl' is not NAME=FILE"),
        (["--tasks", "lambada_openai", "--data", "lambada_openai=no.jsonl"], 3, "no.jsonl does not exist"),
        (
            ["--tasks", "lambada_openai", "--data", "lambada_openai=a.jsonl", "--data", "lambada_openai=b.jsonl"],
            2,
            "--data: 'lambada_openai' is given twice; give it once",
        ),
        (["--tasks", "lambada_openai", "--schedules", "drop,dorp:3"], 2, "'dorp:3'"),
        (["--tasks", "lambada_openai"], 3, "Give them as a file: --data lambada_openai=FILE"),
    ],
)
def test_errors_come_before_a_model_is_loaded(
    given: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.load", lambda *_, **__: pytest.fail("the model was loaded"))
    assert main(["evaluate", "any/model", *given]) == code
    assert said in capsys.readouterr().err


def test_a_missing_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["evaluate", "any/model", "--tasks", "arc_easy"]) == 2
    assert "lm_eval is not installed; install the extra: pip install 'bathyscope[eval]'." in capsys.readouterr().err
