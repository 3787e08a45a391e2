"""``bathyscope lab``: recipes by name or file, overrides, and mistakes that name what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bathyscope_lab.folder import RunFolder
from bathyscope_lab.recipes import shipped

import bathyscope
from bathyscope.cli import main

SMALL = [
    *("--set", "budget.steps=3", "--set", "evaluation={problems: 5, final_problems: 5}", "--set", "stages.0.batch=4"),
    *("--set", "model.num_hidden_layers=2", "--seed", "7", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "small"
    assert main(["lab", "train", "smallest", "--out", str(out), *SMALL, "--quiet"]) == 0
    return out


def test_a_recipe_gives_a_model_that_loads(folder: Path) -> None:
    assert bathyscope.load(folder).n_blocks == 2
    assert "seed: 7" in (folder / "recipe.yaml").read_text(encoding="utf-8")


def test_the_result_is_printed_as_it_is_stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["lab", "train", "smallest", "--out", str(folder), *SMALL]
    assert main([*again, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert "Training smallest: 3 steps." in printed.err
    assert f"Written: {folder}" in printed.err
    assert main([*again, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    loss = json.loads((folder / "training.json").read_text(encoding="utf-8"))["held_out"]["interpolate_loss"]
    assert "interpolate loss" in printed.out
    assert f"{loss:.4f}" in printed.out
    assert "accuracies are shares of exact answers, given the true steps." in " ".join(printed.out.split())


def test_an_interrupted_run_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RunFolder.log

    def interrupted(self: RunFolder, record: dict[str, Any]) -> None:
        log(self, record)
        if record["step"] == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "log", interrupted)
    command = ["lab", "train", "smallest", "--out", str(tmp_path), *SMALL, "--set", "saving.every=2"]
    assert main(command) == 130
    said = capsys.readouterr().err
    assert f"Interrupted: 2 of 3 steps are saved in {tmp_path}. To resume: bathyscope lab train smallest" in said


def test_recipes_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(shipped())
    assert any(line.startswith("smallest: The smallest model that is worth looking at") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Choose a command: train, recipes"),
        (["trian"], "Unknown command 'trian'. Did you mean 'train'? Allowed: train, recipes"),
        (["train", "smalest", "--out", "x"], "No recipe 'smalest'. Did you mean 'smallest'?"),
        (["train", "smallest", "--out", "x", "--set", "sed=3"], "recipe has no option 'sed'. Did you mean 'seed'?"),
    ],
)
def test_mistakes_name_what_is_allowed(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_texts_are_refused_where_problems_are_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model"
    assert main(["lab", "train", "smallest", "--out", str(out), "--data", "nowhere", *SMALL]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "data='nowhere' (--data) is a folder of texts, and smallest trains on problems of the task" in said
    assert not out.exists()


def test_texts_without_their_folder_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "train", "depth_6", "--out", str(tmp_path / "model"), "--device", "cpu"]) == 3
    assert "no data folder was given; point --data at the folder that holds it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["smallest", "--set", "model.num_hidden_layers=0"],
        ["depth_12"],
        ["fine_tune", "--set", "from=no/such-folder"],
    ],
)
def test_a_training_that_is_refused_leaves_nothing(arguments: list[str], tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert main(["lab", "train", *arguments, "--out", str(out), "--quiet"]) in (2, 3, 4)
    assert not [*tmp_path.iterdir()]
    # a folder of the user's stays
    out.mkdir()
    assert main(["lab", "train", *arguments, "--out", str(out), "--quiet"]) in (2, 3, 4)
    assert out.is_dir()
