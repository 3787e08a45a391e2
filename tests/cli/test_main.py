"""Exit codes, help, and what goes to which channel; each command has tests of its own beside this."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from rich.console import Console

import bathyscope
from bathyscope.cli import main, session
from bathyscope.cli.app import app
from bathyscope.cli.console import (
    log_lines,
    logged_as_lines,
    quiet_libraries,
    say,
)
from bathyscope.cli.contents import every_command
from bathyscope.core.progress import LOGGER
from bathyscope.core.strict import plain
from bathyscope.errors import ModelError, StoreError

NAMES = [name for name in app if not name.startswith("-")]
COMMANDS = [*dict.fromkeys((*((name,) for name in NAMES), *every_command()))]
"""The words of each, those inside of others too."""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bathyscope {bathyscope.__version__}\n"


def test_the_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert main(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
    assert main(["--help-all"]) == 0
    whole = capsys.readouterr().out
    assert len(whole.splitlines()) > len(lines)
    assert [name for name in NAMES if f" {name} " not in whole] == []


def test_published_faults_have_a_help_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--help"]) == 0
    assert "PAPER-as-published" not in capsys.readouterr().out
    assert main(["survey", "--help-faults"]) == 0
    faults = capsys.readouterr().out
    assert "Faults of the papers' published code" in faults
    assert "--skip.axis" in faults
    assert "--lens.k " not in faults


def test_help_names_every_command_and_imports_no_model_library() -> None:
    code = (
        "import sys; from bathyscope.cli import main; code = main(['--help']); "
        "heavy = {'torch', 'transformers', 'xarray', 'matplotlib'} & set(sys.modules); "
        "sys.exit(code or (1 if heavy else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = " ".join(done.stdout.split())
    assert [words for words in COMMANDS if not re.search(rf"\b{' '.join(words)}\b", listed)] == []
    assert "bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10" in done.stdout
    assert "130 interrupted" in done.stdout


def test_few_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(NAMES) <= 18
    assert main(["--help"]) == 0
    first, more = capsys.readouterr().out.split("\n\n")[2:4]
    listed = [line.split()[0] for line in first.splitlines()[1:]]
    others = more.partition("More:\n")[2].partition("Inside of these:")[0]
    listed += [name for line in others.splitlines() for name in line.replace(",", " ").split()[1:]]
    assert sorted(listed) == sorted(NAMES)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_help_has_examples_that_its_own_parser_accepts(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "console", Console(width=200))  # no example is wrapped
    assert main([*words, "--help"]) == 0
    printed = capsys.readouterr().out
    below = printed.split("Examples:")[1]
    assert [line for line in below.splitlines() if len(line.rstrip()) > 80] == []
    lines = [line.strip() for line in below.replace("\\\n", "").splitlines()]  # as a shell reads them
    examples = [line.split("|")[0].split(">")[0] for line in lines if line.startswith("bathyscope ")]
    assert 2 <= len(examples) <= 6
    for example in examples:
        app.parse_args(shlex.split(example)[1:], exit_on_error=False, print_error=False)


def test_unknown_names_are_answered_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shwo", "run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "error: Unknown command 'shwo'. Did you mean 'bathyscope show'? Allowed: demo, survey, course, fit-lens, "
    )
    assert main(["survey", "model", "--promts", "gsm8k:1"]) == 2
    said = capsys.readouterr().err
    assert "Unknown option: --promts. Did you mean --prompts?" in said
    assert "See bathyscope survey --help." in said
    assert main(["survey", "model", "--lens.kk", "3"]) == 2
    assert "Did you mean --lens.k?" in capsys.readouterr().err


def test_what_is_missing_or_too_much_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--verison"], "Unknown option '--verison'. Did you mean '--version'? See bathyscope --help."),
        (["show"], "bathyscope show needs RUN. See bathyscope show --help."),
        (["compare", "group", "run"], "bathyscope compare group needs --by. See bathyscope compare group --help."),
        (["show", "run", "--measure"], "--measure needs a value. See bathyscope show --help."),
        (["demo", "more", "words"], "bathyscope demo takes no 'more', 'words'. See bathyscope demo --help."),
    ):
        assert main(arguments) == 2
        assert capsys.readouterr().err == f"error: {said}\n"


def test_a_command_of_another_package_says_which_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    without = App(name="bathyscope")
    without.command(lambda: 0, name="show")
    assert main(["lab", "train"], without, "bathyscope") == 2
    assert (
        capsys.readouterr().err == "error: The command 'lab' belongs to another package: pip install bathyscope-lab\n"
    )


def test_usage_errors_leave_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [["survey", "m", "--seed", text] for text in ("many", "1.5", "1e3", "9" * 40)]
    wrong += [["survey", "m", "--drop.blocks", "[" * 5000], ["survey", "m", "--skip.positions", "[[1], 2"]]
    for arguments in (
        ["show"],
        ["show", "run", "--format", "xml"],
        *wrong,
    ):
        assert main(arguments) == 2, arguments
        printed, said = capsys.readouterr()
        assert printed == ""
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert said.endswith(" --help.\n")
        assert ".. See" not in said
    # a source of prompts may be a text, and a number must be a whole one
    assert main(["reproduce", "hu2025", "--prompts", "1.5"]) == 2
    assert "--prompts 1.5 is no number of prompts" in capsys.readouterr().err


def test_debug_shows_where_an_error_was_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(tmp_path)]) == StoreError.exit_code
    assert "Traceback" not in capsys.readouterr().err
    assert main(["--debug", "show", str(tmp_path)]) == StoreError.exit_code
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("BATHYSCOPE_DEBUG", "1")
    assert main(["show", str(tmp_path)]) == StoreError.exit_code
    assert "Traceback" in capsys.readouterr().err


def test_the_unexpected_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fault(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a fault of the program")

    monkeypatch.setattr("bathyscope.open", fault)
    with pytest.raises(ZeroDivisionError):
        main(["show", str(tmp_path)])


def test_memory_that_does_not_suffice_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def large(*_: Any, **__: Any) -> None:
        import torch

        torch.empty(1 << 45, dtype=torch.uint8)

    monkeypatch.setattr("bathyscope.open", large)
    assert main(["show", str(tmp_path)]) == ModelError.exit_code
    said = capsys.readouterr().err
    assert "error: Out of memory: " in said
    assert "finished results are saved where there is a folder for them." in " ".join(said.split())
    assert "Traceback" not in said


def test_interruption_has_its_own_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bathyscope.open", interrupted)
    assert main(["show", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_scheduler_that_ends_a_command_interrupts_it_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(*_: Any, **__: Any) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            print("cleaned up")

    monkeypatch.setattr("bathyscope.open", ended)
    assert main(["show", str(tmp_path)]) == 130
    printed, said = capsys.readouterr()
    assert printed == "cleaned up\n"
    assert said == "Already stopping; finished results are being saved.\nInterrupted.\n"


def test_warnings_are_one_line_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def warned(*_: Any, **__: Any) -> None:
        warnings.warn("two\n  lines", UserWarning, stacklevel=1)
        warnings.warn("for programmers", FutureWarning, stacklevel=1)
        raise StoreError("no run")

    monkeypatch.setattr("bathyscope.open", warned)
    assert main(["show", str(tmp_path)]) == 5
    assert capsys.readouterr().err == "warning: two lines\nerror: no run\n"


def test_a_reader_that_stops_reading_is_no_fault(run_folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bathyscope",
        "show",
        str(run_folder),
        "--measure",
        "skip",
        "--format",
        "csv",
    ]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


def test_libraries_are_quiet_inside_and_as_before_afterwards() -> None:
    from transformers.utils import logging

    before = logging.get_verbosity()
    with quiet_libraries():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == before
    assert logging.is_progress_bar_enabled()


def test_plain_values_hold_nothing_that_json_lacks() -> None:
    import numpy as np

    given = {"a": (1, float("nan")), 2: np.array([1.5, np.inf]), "text": "nan", "none": None, "flag": True}
    assert plain(given) == {"a": [1, None], "2": [1.5, None], "text": "nan", "none": None, "flag": True}


def test_messages_as_json_for_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path / "nowhere"), "--log-json"]) == 5
    said = capsys.readouterr()
    told = json.loads(said.err)
    assert (said.out, told["level"]) == ("", "error")
    assert told["message"].startswith("There is no run in")
    assert datetime.fromisoformat(told["time"]).tzinfo is not None
    assert main(["show", "--log-level", "loud"]) == 2
    assert "--log-level" in capsys.readouterr().err


def test_messages_below_a_level_are_left_out_and_progress_is_among_them(capsys: pytest.CaptureFixture[str]) -> None:
    for level, lines in (
        ("info", ["one", "half", "warning: two", "error: three"]),
        ("warning", ["warning: two", "error: three"]),
    ):
        session.begin([])
        with logged_as_lines():
            log_lines(level, False)
            say("one")
            LOGGER.info("half", extra={"values": {"share": 0.5}})
            say("warning: two", level="warning")
            say("error: three", level="error")
        assert capsys.readouterr().err.splitlines() == lines
    with logged_as_lines():
        log_lines("info", True)
        LOGGER.info("half", extra={"values": {"share": 0.5}})
    assert json.loads(capsys.readouterr().err)["share"] == 0.5
    session.begin([])
    assert not LOGGER.handlers, "nothing is left for the next call in a program"


def gone() -> str:
    raise FileNotFoundError(2, "No such file or directory")


def test_a_working_folder_that_was_removed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getcwd", gone)
    assert main(["check", "model"]) == 5
    assert capsys.readouterr().err == (
        "error: The working folder no longer exists. Change to another one (cd ~) and try again.\n"
    )
    assert main(["check", "--help"]) == 0


def test_a_path_that_the_system_refuses_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "x"))

    monkeypatch.setattr(bathyscope, "open", refuse)
    assert main(["show", "run"]) == 5
    said = capsys.readouterr().err
    assert said.startswith("error: '")
    assert said.endswith(
        "cannot be used: Permission denied. Give another path, or make room there; --debug shows the traceback.\n"
    )
