"""Help, the version and a mistyped flag need no library that takes long to import; every command is found."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from bathyscope.cli.app import app
from bathyscope.cli.contents import every_command
from bathyscope.core.commands import PLACES

HEAVY = ("torch", "transformers", "xarray", "pandas", "scipy", "matplotlib")
COMMANDS = [name for name in app if not name.startswith("-")]
# each line of these is one command line; all run in one process, whose modules are looked at after each
LIGHT = [
    ["--version"],
    ["--help"],
    *([name, "--help"] for name in COMMANDS),
    *([*words, "--help"] for words in every_command()),
    *([name, "--help"] for name in PLACES),
    *(["probe", name, "--help"] for name in ("wic", "ing", "subjoiner")),
    ["lab", "train", "--help"],
    ["survey", "--help-measures"],
    ["survey", "--help", "skip"],
    ["nonsense"],
    ["compare", "gruop", "run"],
    ["group", "run"],
    ["survey", "model", "--promts", "gsm8k:1"],
    ["survey", "model", "--skip.parts", "blok", "--prompts", "gsm8k:1"],
    ["survey", "model", "--lens.k", "0", "--prompts", "gsm8k:1"],
    ["compare", "--sed", "1"],
    ["compare", "runs/a", "runs/b", "--level", "2"],
    ["compare", "solved", "model", "--prompts", "gsm8k:1", "--seed", "-1"],
    ["diff", "maps", "model", "other", "--prompts", "gsm8k:1", "--resamples", "0"],
    ["prune", "model", "--calibration", "a", "--test", "b", "--over", "words"],
    ["probe", "ing", "model", "--data", "text.txt", "--window", "3"],
    ["estimate", "model", "--tokens", "1"],
    ["check", "model", "--seed", "1"],
]


def test_help_and_mistyped_flags_import_nothing_heavy() -> None:
    code = f"""
import contextlib, io, sys
from bathyscope.cli import main
for line in {LIGHT!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(line)
    there = [name for name in {HEAVY!r} if name in sys.modules]
    if there or code not in (0, 2):
        sys.exit(f"{{line}} ended with {{code}} and imported {{there}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_reading_runs_and_records_needs_no_model_library() -> None:
    code = """
import sys
from bathyscope.cli import main
for line in (
    ["compare", "group", "runs/none", "--by", "level"], ["compare", "runs/none"], ["reproduce", "--score", "none.json"]
):
    assert main(line) == 5
    there = {"torch", "transformers"} & set(sys.modules)
    if there:
        sys.exit(f"{line} imported {there}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert [line.startswith("error: There is no run in") for line in said] == [True, True, False]
    assert said[2].startswith("error: none.json cannot be read")


def test_commands_of_other_packages_are_listed() -> None:
    assert {entry.name for entry in entry_points(group="bathyscope.commands")} <= set(COMMANDS)
