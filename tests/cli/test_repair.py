"""``bathyscope repair`` prints what the Python call gives, keeps an interrupted training, and has examples that run."""

from __future__ import annotations

import json
import random
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.cli.commands import repair as command
from bathyscope.core.conditions import require_conditions
from bathyscope.surgery.options import RepairOptions
from bathyscope.surgery.repairing.repair import require_budget
from bathyscope.surgery.repairing.repaired import Repaired

ROOT = Path(__file__).parents[2]


def asked(model_folder: Path, prompts_file: Path, tmp_path: Path) -> list[str]:
    """Six prompts that repair, and six others."""
    words = sorted(
        {word for line in prompts_file.read_text().splitlines() for word in json.loads(line)["text"].split()}
    )
    files = []
    for seed, name in enumerate(("calibration", "test")):
        draw, file = random.Random(seed), tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(json.dumps({"text": " ".join(draw.choices(words, k=12))}) for _ in range(6)))
        files += [f"--{name}", str(file)]
    return ["repair", str(model_folder), "--schedule", "drop:2", *files, "--quiet"]


def test_rows_are_the_rungs(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = asked(model_folder, prompts_file, tmp_path)
    found = bathyscope.repair(model_folder, "drop:2", given[5], test=given[7], progress=False)
    code = main([*given, "--format", "json", "--out", str(tmp_path / "out")])
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record == found.record()
    assert [row["name"] for row in record["rungs"]] == ["none", "scale", "linear"]
    assert [row["cost"] for row in record["rungs"]] == [rung.cost for rung in found.rungs]
    assert code == (0 if found.proved else 7)
    assert (tmp_path / "out" / "config.json").is_file() == found.proved
    assert ("Nothing was written" in captured.err) == (not found.proved)


def test_where_nothing_helps_the_code_is_its_own_and_nothing_is_written(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Repaired, "chosen", "none")
    given = asked(model_folder, prompts_file, tmp_path)
    assert main([*given, "--out", str(tmp_path / "out")]) == 7
    captured = capsys.readouterr()
    assert captured.out.startswith("No repair helps: on the calibration prompts kept aside")
    assert "error: No repair helps" in captured.err
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_an_interrupted_training_says_how_it_goes_on(
    model_folder: Path,
    prompts_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bathyscope, "repair", ended)
    given = [*asked(model_folder, prompts_file, tmp_path), "--how", "heal", "--tokens", "50"]
    assert main([*given, "--state", "s"]) == 130
    said = capsys.readouterr().err
    assert "Interrupted: the training so far is saved in s. To resume: bathyscope repair" in said
    assert main(given) == 130
    assert capsys.readouterr().err.strip().endswith("Interrupted.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--how", "heal"], "Healing takes a budget of tokens or of minutes"),
        (
            ["--how", "scale", "--tokens", "9"],
            "tokens=9 is of healing; give how='heal' (--how heal), or leave",
        ),
        (["--state", "s"], "state='s' is of healing; give how='heal' (--how heal)"),
        (["--level", "95"], "level=95.0 is out of range; allowed: 0.01 to 0.9999"),
    ],
)
def test_a_wrong_number_is_refused_before_the_model_is_loaded(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text := tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    sources = ["--calibration", str(text), "--test", str(text)]
    assert main(["repair", "none", "--schedule", "drop:1", *sources, *words]) == 2
    assert said in (err := capsys.readouterr().err)
    assert "Loading" not in err


@pytest.mark.parametrize(
    "text", [command._EXAMPLES, *((ROOT / name).read_text() for name in ("README.md", "docs/schedules.md"))]
)
def test_examples_that_train_have_a_budget(text: str) -> None:
    lines = re.findall(r"^ *(bathyscope repair .*)$", text.replace("\\\n", " "), re.M)
    assert lines
    for line in lines:
        words = shlex.split(line)
        flags = dict(pairwise(words))
        options = {name: flags[f"--{name}"] for name in ("how", "minutes", "state") if f"--{name}" in flags}
        require_conditions(RepairOptions, options)
        require_budget(options.get("how", "linear"), None, float(options["minutes"]) if "minutes" in options else None)


def test_the_state_and_the_repaired_model_need_folders_of_their_own(
    model_folder: Path, prompts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = str(tmp_path / "out")
    healing = ["--how", "heal", "--tokens", "48", "--state", one, "--out", one]
    assert main([*asked(model_folder, prompts_file, tmp_path), *healing]) == 2
    assert (
        "the repaired model needs one of its own; give another folder for the state (--state)"
        in capsys.readouterr().err
    )
    assert not Path(one).exists()
