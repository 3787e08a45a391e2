"""Eight commands at a terminal of 80 columns: nothing is wider, no word is broken, and a file holds the same words."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len

from bathyscope.cli import main

COLUMNS = 80
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
DRAWN = set("─━╸╺│╷╵┃█▏▎▍▌▋▊▉▁▂▃▄▅▆▇")
"""Signs of lines and bars, which are as long as there is room."""
WORD = re.compile(r"[A-Za-z]{2,}")
"""Numbers are left out: times and rates differ from one call to the next."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "survey": ("survey", "{model}", "--prompts", "{prompts}", "--measures", "lens,skip,drop", "--out", "{new}"),
    "show": ("show", "{run}"),
    "show of drop": ("show", "{run}", "--measure", "drop"),
    "prune": (
        *("prune", "{model}", "--calibration", "{prompts}", "--test", "{others}", "--out", "{new}"),
        *("--drop", "1", "--random", "2", "--resamples", "20"),
    ),
    "compare": ("compare", "{run}", "{copy}"),
    "check": ("check", "{model}"),
    "names": ("show", "names", "measures"),
    "estimate": ("estimate", "{model}", "--prompts", "{prompts}"),
    "exit-advice": ("prune", "exit-advice", "{model}", "--prompts", "{prompts}"),
}

SPLIT_INTERVAL = re.compile(r"\[[−+\d.]+,$|\d to$")
"""The first half of an interval at the end of a line."""
TERMINAL_ALONE = {
    "names": {"All", "columns", "csv", "format", "needs"},
    "compare": {"Left", "this", "wide", "terminal", "csv", "format", "has", "too"},
}
"""Words that explain what a terminal's shorter table leaves out."""
SHORTENED = {"names", "show"}
"""Whose tables have fewer columns at a terminal."""


WITHOUT_PROGRESS = """
import sys, time
time.perf_counter = iter(range(10**9)).__next__
from bathyscope.cli import main
from bathyscope.core import progress

progress._PATIENCE = 1e6
sys.exit(main(sys.argv[1:]))
"""
"""The program without the lines that depend on how long its work takes; every look at the clock is one second later."""


def environment() -> dict[str, str]:
    """That of a person at a terminal which says its own width."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1"}


def at_a_terminal(command: list[str]) -> str:
    """All that a command writes on a terminal of 80 columns, escapes included."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, COLUMNS))
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment())
    os.close(slave)
    written = bytearray()
    try:
        while block := os.read(master, 65536):
            written += block
    except OSError:
        pass  # the end of a terminal whose other side is closed
    finally:
        os.close(master)
    assert process.wait() == 0, written.decode(errors="replace")[-2000:]
    return written.decode()


def visible_lines(written: str) -> list[str]:
    """What stood on the terminal's lines, each drawing of a bar by itself."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", ESCAPE.sub("", written))]


def words(text: str) -> set[str]:
    """Words of letters, without what is drawn and without numbers."""
    return set(WORD.findall(text))


@pytest.fixture(scope="module")
def others_file(prompts_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many prompts again, of other words."""
    path = tmp_path_factory.mktemp("prompts") / "road.jsonl"
    lines = prompts_file.read_text(encoding="utf-8").splitlines()
    texts = [" ".join(reversed(json.loads(line)["text"].split())) for line in lines]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def second_run(run_folder: Path, others_file: Path, model_folder: Path) -> Path:
    """Another run of the same measures."""
    out = run_folder.parent / "road"
    arguments = ["survey", str(model_folder), "--prompts", str(others_file), "--out", str(out), "--quiet"]
    assert main([*arguments, "--effective-depth.resamples", "20"]) == 0
    return out


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(termios, "tcsetwinsize"), reason="this Python cannot set the size of a terminal")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_shows_whole_words_and_a_file_the_same(
    name: str,
    model_folder: Path,
    prompts_file: Path,
    others_file: Path,
    run_folder: Path,
    second_run: Path,
    tmp_path: Path,
) -> None:
    places = {
        "model": model_folder,
        "prompts": prompts_file,
        "others": others_file,
        "run": run_folder,
        "copy": second_run,
    }

    def command(new: str) -> list[str]:
        filled = [word.format(**places, new=tmp_path / new) for word in COMMANDS[name]]
        return [sys.executable, "-c", WITHOUT_PROGRESS, *filled]

    lines = visible_lines(at_a_terminal(command("new_a")))
    assert len([line for line in lines if line]) > 5
    # A path is one word, and one that is longer than a line has a line for itself.
    assert [line for line in lines if cell_len(line) > COLUMNS and len(line.split()) > 1] == []
    assert [line for line in lines if SPLIT_INTERVAL.search(line)] == []
    piped = subprocess.run(command("new_b"), capture_output=True, text=True, check=True, env=environment())
    at_terminal, in_file = words("\n".join(lines)), words(piped.stdout + piped.stderr)
    # A word that was broken would stand in two pieces that the file does not have.
    assert at_terminal - in_file <= TERMINAL_ALONE.get(name, set())
    if name not in SHORTENED:
        assert in_file - at_terminal == set()
