"""``bathyscope estimate`` on a configuration without weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import zoo

from bathyscope.cli import main
from bathyscope.surveying import rates


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are not looked at, and a hundredth of a second each is enough."""
    monkeypatch.setattr(rates, "SECONDS", 0.01)


@pytest.fixture(scope="module")
def config_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only a config.json."""
    folder = tmp_path_factory.mktemp("configuration")
    zoo.entry("llama").config().save_pretrained(folder)
    return folder


@pytest.mark.usefixtures("_soon")
def test_json_from_the_configuration_alone(config_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["estimate", str(config_folder), "--tokens", "30", "--count", "4", "--format", "json"]
    assert main([*arguments, "--measures", "drop,repeat", "--repeat.length", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["blocks"], found["prompts"], found["tokens"], found["longest"]) == (5, 4, 120, 30)
    assert list(found["rows"]) == ["drop", "repeat"]
    assert found["flops"] == found["block_flops"] + found["readout_flops"]
    assert found["floor_seconds"] == pytest.approx(found["flops"] / found["rates"]["matrix"])


@pytest.mark.usefixtures("_soon")
def test_table_says_what_was_measured(config_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(config_folder), "--tokens", "30", "--dtype", "float32"]) == 0
    printed = capsys.readouterr().out
    assert "5 blocks × width 64" in printed
    assert "10 prompts, 300 tokens" in printed
    assert "FLOP/s of a large matrix product in float32. Measured just now on" in printed
    assert "logits read and compared a second" in printed


@pytest.mark.usefixtures("_soon")
def test_prompts_are_tokenized(model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(model_folder), "--prompts", str(prompts_file), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["prompts"], found["tokens"], found["longest"]) == (3, 45, 22)


@pytest.mark.usefixtures("_soon")
def test_prompts_given_several_times_are_counted_together(
    model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["--prompts", str(prompts_file), "--prompts", "addition:4"]
    assert main(["estimate", str(model_folder), *both, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["prompts"], found["longest"]) == (7, 22)
    same = ["--prompts", f"{prompts_file}:1", "--prompts", str(prompts_file)]
    assert main(["estimate", str(model_folder), *same, "--format", "json"]) == 3
    assert "The prompt id 'p0' is used 2 times" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "either prompts (--prompts gsm8k:10) or their length"),
        (["--tokens", "1"], 2, "tokens=1 is out of range; allowed: 2 to 1000000"),
        (["--tokens", "20", "--measures", "lenz"], 2, "Did you mean 'lens'"),
        (
            ["--tokens", "20", "--measures", "repeat", "--repeat.length", "6"],
            2,
            "does not fit a model of 5 blocks",
        ),
        (["--prompts", "problems:2"], 3, "no tokenizer"),
    ],
)
def test_what_a_survey_refuses_is_refused(
    config_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert main(["estimate", str(config_folder), *arguments]) == code
    assert words in capsys.readouterr().err


def test_a_folder_without_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(tmp_path), "--tokens", "20"]) == 4
    assert "is a folder without a config.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("[")
    assert main(["estimate", str(tmp_path), "--tokens", "20"]) == 4
    assert "no readable configuration" in capsys.readouterr().err
