"""``bathyscope compare solved-by`` and ``bathyscope compare group``: from two models to the depths of each class."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
import torch
from support import zoo

import bathyscope
from bathyscope.cli import main
from bathyscope.prompts.parts import CLASSES
from bathyscope.prompts.prompt_rows import prompt_lines, read_prompts
from bathyscope.runs.run import Run
from bathyscope.runs.table import tidy

QUICK = ("--resamples", "50", "--permutations", "19")

pytestmark = pytest.mark.filterwarnings("ignore:Groups of fewer than 5 prompts")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of a model of four blocks and of one of five that begins with the same four."""
    folder = tmp_path_factory.mktemp("models")
    shallow, deep = zoo.entry("llama").build(), zoo.entry("llama").build()
    shallow.model.layers = shallow.model.layers[:4]
    shallow.config.num_hidden_layers = 4
    shallow.save_pretrained(folder / "shallow")
    deep.save_pretrained(folder / "deep")
    return folder / "shallow", folder / "deep"


@pytest.fixture(scope="module")
def prompts(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts whose answer is what the deep model finds most probable, every third one more."""
    deep = bathyscope.load(models[1]).hf
    given = []
    for number, question in enumerate(zoo.prompts(deep, (22, 26) * 10, seed=3)):
        answer = int(deep.generate(torch.tensor([question]), max_new_tokens=1, do_sample=False)[0, -1])
        wrong = 4 + (answer + 1) % 40
        given.append(bathyscope.Prompt(ids=[*question, wrong if number % 3 == 0 else answer], answer_tokens=1))
    path = tmp_path_factory.mktemp("prompts") / "asked.jsonl"
    path.write_text(prompt_lines(given), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def labelled(models: tuple[Path, Path], prompts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("labelled") / "labelled.jsonl"
    shallow, deep = map(str, models)
    assert main(["compare", "solved-by", shallow, deep, "--prompts", str(prompts), "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def run_folder(models: tuple[Path, Path], labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "deep"
    arguments = ["survey", str(models[1]), "--prompts", str(labelled), "--out", str(out), "--quiet"]
    assert main([*arguments, "--effective-depth.resamples", "20"]) == 0
    return out


def test_the_file_holds_the_labels_of_the_python_call(models: tuple[Path, Path], prompts: Path, labelled: Path) -> None:
    wanted = bathyscope.solved_by(*models, prompts, progress=False)
    assert read_prompts(str(labelled)) == wanted.prompts
    deep = [prompt.labels["solved_by"] in ("only deep", "both") for prompt in wanted.prompts]
    assert deep == [number % 3 != 0 for number in range(20)]


def test_the_summary_counts_every_class(
    models: tuple[Path, Path], prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "other.jsonl"
    asked = ["compare", "solved-by", *map(str, models), "--prompts", str(prompts), "--out", str(out), "--label", "pair"]
    assert main([*asked, "--format", "json"]) == 0
    printed, said = capsys.readouterr()
    found = json.loads(printed)
    assert list(found["classes"]) == list(CLASSES)
    assert sum(found["classes"].values()) == found["prompts"] == 20
    assert f"Written: {out}" in said
    assert {prompt.labels["pair"] for prompt in read_prompts(str(out))} <= set(CLASSES)
    assert main([*asked, "--quiet"]) == 0
    table = capsys.readouterr().out
    assert f"only deep: {found['classes']['only deep']}\n" in table
    assert "of 20 prompts, the deep one 13." in table


def test_group_prints_what_grouped_gives(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run: Run = bathyscope.open(run_folder)
    found = bathyscope.group(run, "solved_by", resamples=50, permutations=19)
    assert set(found["group"].values) <= set(CLASSES)
    assert main(["compare", "group", str(run_folder), "--by", "solved_by", *QUICK, "--format", "csv"]) == 0
    out = capsys.readouterr().out
    assert out == tidy(found).to_csv(index=False)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == found.sizes["estimator"] * (found.sizes["group"] + found.sizes["pair"])
    assert (
        main(
            [
                "compare",
                "group",
                str(run_folder),
                "--by",
                "solved_by",
                *QUICK,
                "--estimators",
                "settle",
                "--format",
                "json",
            ]
        )
        == 0
    )
    records = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert {record["estimator"] for record in records} == {"settle"}


def test_group_prints_tables_and_draws(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "groups.png"
    assert main(["compare", "group", str(run_folder), "--by", "solved_by", *QUICK, "--out", str(figure)]) == 0
    out, err = capsys.readouterr()
    assert "Depth by solved_by" in out
    assert "neither (7)" in out
    assert "both − neither" in out
    assert "permutation test of prompts between the two groups" in out
    assert f"Written: {figure}" in err
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["compare", "solved-by", "DEEP", "SHALLOW", "--prompts", "PROMPTS", "--out", "x.jsonl"],
            2,
            "give the shallow model first",
        ),
        (
            ["compare", "solved-by", "SHALLOW", "DEEP", "--prompts", "PROMPTS", "--out", "x.json"],
            2,
            "must end in .jsonl",
        ),
        (
            ["compare", "solved-by", "SHALLOW", "DEEP", "--prompts", "LABELLED", "--out", "x.jsonl"],
            3,
            "have a label 'solved_by'",
        ),
        (
            ["compare", "solved-by", "SHALLOW", "DEEP", "--prompts", "PROMPTS:3", "--out", "PROMPTS"],
            2,
            "would be written over",
        ),
        (
            ["compare", "group", "RUN", "--by", "hops"],
            2,
            "The prompts of this run have no label 'hops'. Their labels: dataset, s",
        ),
        (
            ["compare", "group", "RUN", "--by", "solved_by", "--out", "x.html"],
            2,
            "Figure format 'html' is unknown; allowed: png, svg, pdf.",
        ),
        (["compare", "group", "nowhere", "--by", "solved_by"], 5, "There is no run in 'nowhere'"),
    ],
)
def test_mistakes(
    arguments: list[str],
    code: int,
    said: str,
    models: tuple[Path, Path],
    prompts: Path,
    labelled: Path,
    run_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"SHALLOW": models[0], "DEEP": models[1], "PROMPTS": prompts, "LABELLED": labelled, "RUN": run_folder}
    stored = prompts.read_bytes()
    arguments = [re.sub("[A-Z]{3,}", lambda match: str(places[match[0]]), text) for text in arguments]
    assert main(arguments) == code
    assert said in capsys.readouterr().err
    assert not Path("x.jsonl").exists()
    assert prompts.read_bytes() == stored


def test_one_model_twice_is_said(models: tuple[Path, Path], prompts: Path) -> None:
    with pytest.warns(UserWarning, match="Both models are the same"):
        bathyscope.solved_by(models[0], models[0], prompts, progress=False)
