"""Commands by their names of the version before, and words that are nearly a command."""

from __future__ import annotations

import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from cyclopts import App

import bathyscope
from bathyscope.cli import main, session
from bathyscope.cli.app import app
from bathyscope.cli.contents import QUESTIONS, TASKS, every_command
from bathyscope.cli.renamed import KINDS, name_folder, replace_old_name
from bathyscope.core.commands import PLACES, name_command
from bathyscope.pages.catalogue import Kind

WARNING = "warning: bathyscope {} is called {} now; the old name ends with this version.\n"
LINES: dict[str, tuple[list[str], int]] = {
    "grid": (["nowhere.yaml", "--out", "{tmp}/grid"], 2),
    "join": (["{tmp}/part", "--out", "{tmp}/joined"], 5),
    "list": (["--format", "csv", "measures"], 0),
    "badge": (["{run}"], 0),
    "card": (["--partial", "{run}"], 0),
    "plot": (["{run}", "lens.kl", "--out", "{tmp}/kl.svg"], 0),
    "group": (["{run}", "--by", "dataset", "--format", "csv"], 2),
    "written": (["{run}"], 2),
    "solved": (["no/model", "--prompts", "none.jsonl"], 3),
    "solved-by": (["no/model", "no/other", "--prompts", "none.jsonl", "--out", "{tmp}/x.jsonl"], 3),
    "depth-performance": (["{table}", "--covariates", "d_model", "--format", "json"], 0),
    "cka": (["no/model", "no/other", "--prompts", "none.jsonl", "--format", "json"], 3),
    "maps": (["no/model", "no/other", "--prompts", "none.jsonl"], 3),
    "repeat-scan": (["no/model", "--prompts", "none.jsonl", "--orders", " , "], 2),
    "exit-advice": (["no/model", "--prompts", "none.jsonl", "--out", "x.bmp"], 2),
}
"""Name of the version before → arguments, and the exit code that they end with."""


@pytest.fixture
def places(tmp_path: Path, run_folder: Path) -> dict[str, str]:
    table = tmp_path / "models.csv"
    rows = [f"m{n},a,{4 + 3 * n},{64 * (1 + n % 3)},{256 * (1 + n % 3)},{0.3 + 0.02 * n**1.5}" for n in range(8)]
    table.write_text("\n".join(["name,family,layers,d_model,d_ff,score", *rows]), encoding="utf-8")
    return {"tmp": str(tmp_path), "run": str(run_folder), "table": str(table)}


def warning(old: str) -> str:
    return WARNING.format(old, name_command(old))


def test_every_old_name_has_a_line_here() -> None:
    assert set(LINES) == set(PLACES)


@pytest.mark.parametrize("old", PLACES)
def test_an_old_name_does_what_the_new_one_does(
    old: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, code = LINES[old]
    words = [word.format(**places) for word in arguments]
    assert main([*PLACES[old].split(), *words]) == code
    new = capsys.readouterr()
    assert (new.out != "") == (code == 0)
    assert main([old, *words]) == code
    again = capsys.readouterr()
    assert again.out == new.out
    assert again.err == warning(old) + new.err
    assert session.current().command_line == shlex.join(["bathyscope", *PLACES[old].split(), *words])


def parsed(application: App, words: list[str]) -> tuple[str, dict[str, Any]]:
    """The function that a command line calls, and with which arguments."""
    command, bound, _ = application.parse_args(words, exit_on_error=False, print_error=False)
    return command.__qualname__, dict(bound.arguments)


@pytest.mark.parametrize("old", [name for name, place in PLACES.items() if "--" not in place])
def test_an_old_name_takes_what_the_command_takes_by_itself(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"bathyscope.cli.commands.{PLACES[old].split()[-1].replace('-', '_')}")
    assert main([old, "--help"]) == 0
    printed = capsys.readouterr().out.replace("\\\n", "")
    lines = re.findall(rf"^ +{name_command(old)} (.*?)(?: [|>] .*)?$", printed, re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line)
        renamed, told = replace_old_name(["--log-level", "error", "--debug", old, *words], [*app])
        assert told == warning(old).rstrip()
        assert renamed[:3] == ["--log-level", "error", "--debug"]
        assert parsed(app, renamed[3:]) == parsed(module.app, words)


@pytest.mark.parametrize("old", PLACES)
def test_the_help_of_an_old_name_says_the_new_one(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([old, "--help"], [old, "-h"], ["--log-json", old, "--help"]):
        assert main(words) == 0
        printed, told = capsys.readouterr()
        assert printed.startswith(f"Usage: {name_command(old).partition(' --')[0]}")
        assert told == warning(old)


def test_old_names_are_listed_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(PLACES).isdisjoint(app)
    assert main(["--help-all"]) == 0
    assert [name for name in PLACES if re.search(rf"^│ {name} ", capsys.readouterr().out, re.MULTILINE)] == []


def test_a_place_is_a_command_or_a_format() -> None:
    inside = {" ".join(words) for words in every_command() if len(words) == 2}
    assert {place for place in PLACES.values() if "--" not in place} <= inside
    assert {place for place in PLACES.values() if "--" in place} == {"show --format badge", "show --format card"}
    assert set(QUESTIONS) <= {name for commands in TASKS.values() for name in commands}


def test_a_command_of_another_package_keeps_its_name() -> None:
    assert replace_old_name(["grid", "x"], ["grid", "survey"]) == (["grid", "x"], "")
    assert replace_old_name(["--log-level"], []) == (["--log-level"], "")
    assert replace_old_name(["show", "group"], []) == (["show", "group"], "")


def test_the_warning_is_written_as_the_flags_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["group", str(tmp_path / "none"), "--by", "level"]
    assert main(["--log-level", "error", *words]) == 5
    assert capsys.readouterr().err.startswith("error: ")
    assert main([*words, "--log-json"]) == 5
    entry = json.loads(capsys.readouterr().err.splitlines()[0])
    assert (entry["level"], entry["message"]) == ("warning", warning("group").removeprefix("warning: ").rstrip())


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["compare", "gruop", "runs/deep", "--by", "level"], "bathyscope compare group"),
        (["compare", "solvedby", "a", "b"], "bathyscope compare solved-by"),
        (["compare", "depth-performence", "models.csv"], "bathyscope compare depth-performance"),
        (["survey", "gird", "grid.yaml"], "bathyscope survey grid"),
        (["show", "name", "measures"], "bathyscope show names"),
        (["show", "list", "measures"], "bathyscope show names"),
        (["show", "card", "runs/qwen"], "bathyscope show --format card"),
        (["report", "plt", "runs/qwen", "lens.kl"], "bathyscope report plot"),
        (["diff", "map", "a", "b"], "bathyscope diff maps"),
        (["prune", "repeatscan", "a"], "bathyscope prune repeat-scan"),
    ],
)
def test_a_misspelt_word_inside_of_a_command_is_answered(
    words: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err == (
        f"error: {words[1]!r} is neither a file nor a folder here. Did you mean {meant!r}?\n"
    )


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("solvedby", "compare solved-by"),
        ("groups", "compare group"),
        ("crad", "show --format card"),
        ("srvey", "survey"),
        ("measures", "show names measures"),
        ("panel", "show names panels"),
    ],
)
def test_a_misspelt_command_is_answered_wherever_it_is(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word, "x"]) == 2
    assert f"Did you mean 'bathyscope {meant}'?" in capsys.readouterr().err


def test_kinds_of_names_are_those_of_the_call() -> None:
    assert get_args(Kind) == KINDS


@pytest.mark.parametrize(
    "model", ["gpt2", "openai-gpt", "bert-base-uncased", "ctrl", "mistral-community/maps", "./grid"]
)
def test_names_of_models_are_no_misspelt_commands(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("survey", "prune", "diff"):
        assert main([command, model, "--prompts"]) == 2
        assert "Did you mean" not in capsys.readouterr().err


def test_a_folder_called_like_a_command_is_given_as_a_path(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert name_folder(("compare", "group")) == ""
    for name in ("group", "names"):
        Path(name).symlink_to(run_folder)
    assert main(["compare", "group", str(run_folder)]) == 2
    hint = "The folder of that name is given as ./group."
    assert capsys.readouterr().err == (
        f"error: bathyscope compare group needs --by. See bathyscope compare group --help. {hint}\n"
    )
    assert name_folder(("compare", "written")) == name_folder(("compare",)) == name_folder(()) == ""
    assert main(["show", "./names"]) == 0
    assert bathyscope.open("names").caption() in capsys.readouterr().out


def test_a_folder_with_a_nearly_equal_name_is_read(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nmaes").symlink_to(run_folder)
    assert main(["show", "nmaes"]) == 0
    assert capsys.readouterr().err == ""


def test_completion_of_a_shell_knows_the_commands_inside_of_others() -> None:
    script = app.generate_completion(prog_name="bathyscope", shell="bash")
    for words in every_command():
        assert words[-1] in script
    assert re.search(r"depth-performance.*solved-by|solved-by.*depth-performance", script)
