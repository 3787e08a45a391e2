"""``bathyscope compare``: every format, pairs, questions, files, and mistakes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main

QUICK = ("--resamples", "100")


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """A second run of the same model and prompts."""
    out = tmp_path_factory.mktemp("runs") / "again"
    shutil.copytree(run_folder, out)
    return out


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    assert main(["compare", *map(str, arguments), *QUICK]) == 0
    out, err = capsys.readouterr()
    return out, err


def test_csv_is_the_data_frame_and_nothing_else(
    run_folder: Path, other_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = printed(capsys, run_folder, other_folder, "--format", "csv")
    found = bathyscope.compare([run_folder, other_folder], resamples=100)
    assert out == found.to_dataframe().to_csv(index=False)
    assert found.summary() in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["comparison"] for row in rows} == {"tiny-llama (again) − tiny-llama (house)"}
    assert {float(row["difference"]) for row in rows if row["difference"]} == {0}


def test_json_has_null_for_what_is_missing(
    run_folder: Path, other_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = printed(capsys, run_folder, other_folder, "--format", "json", "--estimators", "kl,settle")
    rows = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert [row["estimator"] for row in rows] == ["kl", "settle"]
    assert rows[1]["p_value"] == 1
    assert rows[1]["kind"] == "paired"
    assert rows[0]["p_value"] is None


def test_the_table_says_how_to_read_it(
    run_folder: Path, other_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = printed(capsys, run_folder, other_folder)
    assert err == ""
    assert "tiny-llama (again) − tiny-llama (house): paired, 3 prompts" in out
    assert "intervals exclude 0" in out
    assert "Ratio: blocks done/L" in out
    assert "p none, shown with a bound" in out
    within, _ = printed(capsys, run_folder, other_folder, "--equivalence", "1", "--equivalence-unit", "blocks")
    assert "a difference of more than 1 block" in within
    unpaired, _ = printed(capsys, run_folder, other_folder, "--unpaired")
    assert "two-sample, 6 prompts" in unpaired


def test_pairs_are_given_with_a_colon(
    run_folder: Path, other_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "a:b"
    odd.symlink_to(other_folder)
    for text in (f"{run_folder}:{other_folder}", f"{run_folder}:{odd}"):
        out, _ = printed(capsys, text, "--question", "reasoning", "--format", "csv", "--estimators", "settle")
        assert [row["reference"] for row in csv.DictReader(io.StringIO(out))] == ["tiny-llama (house)"]
    assert main(["compare", f"{run_folder}:{other_folder}", str(run_folder)]) == 2
    assert "is a single run among pairs REFERENCE:OTHER" in capsys.readouterr().err


def test_files_are_written_beside_the_table(
    run_folder: Path, other_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    _, err = printed(capsys, run_folder, other_folder, "--paired", "--out", page)
    assert f"Written: {page}" in err
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "No run given; say which: bathyscope compare runs/one runs/other"),
        (["RUN"], 2, "Only one run was given"),
        (["RUN", "RUN"], 2, "The same run was given twice"),
        (["RUN", "nowhere"], 5, "There is no run in 'nowhere'"),
        (["RUN:nowhere"], 5, "There is no run in 'nowhere'"),
        (["RUN", "OTHER", "--question", "size"], 2, "at least two different numbers of blocks"),
        (["RUN", "OTHER", "--question", "reasoning"], 2, "Say which belong together: BASE:COT"),
        (["RUN", "--question", "difficulty"], 2, "no label of difficulty (level, hops, steps, digits)"),
        (["RUN:OTHER", "RUN:RUN"], 2, "compares a run with itself; give two different runs, REFERENCE:OTHER"),
        (["RUN", "OTHER", "--out", "x.jpg"], 2, "has an unknown ending"),
        (["RUN", "OTHER", "--question", "depth"], 2, "Invalid value"),
        (["RUN", "OTHER", "--estimators", "cosin"], 2, "Did you mean 'cosine'?"),
        (["RUN", "OTHER", "--cluster", "book"], 2, "The prompts of this run have no label 'book'"),
        (["RUN", "OTHER", "--equivalence", "0"], 2, "The bound of equivalence is 0"),
        (["RUN", "OTHER", "--equivalence", "1", "--equivalence-unit", "block"], 2, "equivalence-unit"),
    ],
)
def test_mistakes(
    arguments: list[str],
    code: int,
    said: str,
    run_folder: Path,
    other_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"RUN": str(run_folder), "OTHER": str(other_folder)}
    given = [text.replace("RUN", places["RUN"]).replace("OTHER", places["OTHER"]) for text in arguments]
    assert main(["compare", *given]) == code
    assert said in capsys.readouterr().err


def test_a_model_and_a_plan_are_led_to_the_commands_that_compare_them(
    model_folder: Path, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [[5, 9, 7, 30, 44, 12, 8 + number] for number in range(8)]
    plan = tmp_path / "my plan"
    bathyscope.prune(model_folder, ids[:4], ids[4:], drop=1, random=1, resamples=100, out=plan, progress=False)
    for arguments, held, commands in (
        (
            [model_folder, run_folder],
            "a model",
            [f"survey {model_folder} --", f"solved-by {model_folder} OTHER"],
        ),
        ([run_folder, plan], "a plan", [f"show '{plan}'", f"evaluate '{plan}' --tasks", f"export '{plan}' --out"]),
    ):
        assert main(["compare", *map(str, arguments)]) == 5
        message = capsys.readouterr().err
        assert f"holds {held}, " in message
        assert all(f"bathyscope {command}" in message or command in message for command in commands)
    assert main(["show", str(plan)]) == 0
    assert main(["export", str(plan), "--out", str(tmp_path / "smaller"), "--quiet"]) == 0
    questions = tmp_path / "rows.jsonl"
    questions.write_text("".join(f'{{"ids": {each}, "answer_tokens": 2}}\n' for each in ids), encoding="utf-8")
    solved_by = ["solved-by", tmp_path / "smaller", model_folder, "--prompts", questions, "--out", tmp_path / "l.jsonl"]
    assert main(["compare", *map(str, solved_by), "--quiet"]) == 0
