"""``bathyscope fit-lens``, ``course`` and ``written`` print what the Python calls give."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.surveying.training.steps import open_course

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    places = {"old house": "edge", "house": "road", "old road": "hills", "light": "house", "old light": "village"}
    rows = [{"text": f"the {subject} stood at the {word}", "answer": word} for subject, word in places.items()]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_lens_is_fitted_and_read_with(
    model_folder: Path, questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lens.safetensors"
    command = ["fit-lens", str(model_folder), "--prompts", str(questions), "--skip-first", "1", "--out", str(out)]
    assert main([*command, "--format", "json", "--quiet"]) == 0
    record = json.loads(capsys.readouterr().out)
    lens = open_lens(out)
    assert record["conclusion"] == lens.text
    assert [row["boundary"] for row in record["boundaries"]] == list(lens.boundaries)
    assert record["fitted_to"]["skip_first"] == 1
    assert main(["show", str(out), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == record
    assert main(["show", str(out), "--raw"]) == OptionError.exit_code
    assert "is an evaluation, maps or a lens, and is shown whole" in " ".join(capsys.readouterr().err.split())
    others = tmp_path / "others.txt"
    others.write_text(
        "the road turned to the hills and the village stood in the light of the old house", encoding="utf-8"
    )
    survey = ["survey", str(model_folder), "--prompts", str(others), "--measures", "jacobian_lens"]
    assert main([*survey, "--jacobian-lens.lens", str(out), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert bathyscope.open(tmp_path / "run").identity.measures["jacobian_lens"]["lens_hash"] == lens.fingerprint


def test_a_course_has_a_row_for_every_step(
    model_folder: Path, questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (10, 2):
        shutil.copytree(model_folder, tmp_path / "training" / f"checkpoint-{step}")
    command = ["course", str(tmp_path / "training"), "--prompts", str(questions), "--out", str(tmp_path / "course")]
    assert main([*command, "--format", "json", "--quiet"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in rows] == [2, 10]
    assert rows[0]["readable"] == pytest.approx(float(open_course(tmp_path / "course")["readable"][0]))
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("2 steps were surveyed, 2 to 10. Half of the tokens keep ")


def test_what_was_written_is_judged(
    model_folder: Path, questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    survey = ["survey", str(model_folder), "--prompts", str(questions), "--measures", "lens", "--write", "2"]
    assert main([*survey, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compare", "written", str(tmp_path / "run"), "--permutations", "99"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The model wrote the right answer to ")
    assert "of 5 prompts; the limit of tokens ended 5 of the texts." in " ".join(out.split())
    assert "nan" not in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit-lens", "model", "--prompts", "a.txt", "--out", "l", "--directions", "0"],
        ["compare", "written", "run", "--permutations", "0"],
    ],
)
def test_options_are_checked_before_anything_is_loaded(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "is out of range; allowed: 1" in capsys.readouterr().err
