"""What reaches standard output and standard error: signs, escapes, full and closed streams."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bathyscope.cli import console, main, table_printing

ODD = "a\x1b[31mred\x9b2J\n\u202eb"
SHOWN = "a\\x1b[31mred\\x9b2J\\n\\u202eb"


def run(arguments: list[str], stdout: object = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bathyscope", *arguments]
    given = {**os.environ, **environment}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=given)  # type: ignore[call-overload, no-any-return]


class Terminal(io.StringIO):
    """Standard output as a person sees it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [False, True])
def test_control_characters_are_shown_and_not_obeyed(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "160")
    table_printing.write_table(["prompt", "value"], [[ODD, 1.0]])
    console.write(f"about {ODD}")
    seen = out.getvalue()
    assert SHOWN in seen
    assert "\x9b" not in seen
    assert "\x1b[31m" not in seen
    assert "\u202e" not in seen


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"runs/{ODD}"]) == 5
    assert "\x1b" not in capsys.readouterr().err


def test_data_for_programs_are_exact(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    console.write_data([{"prompt": ODD}], "csv")
    assert [row["prompt"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))] == [ODD]
    console.write_data([{"prompt": ODD}], "json")
    assert json.loads(capsys.readouterr().out) == [{"prompt": ODD}]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    console.write_data([{"prompt": ODD}], "json")
    assert "\x9b" not in terminal.getvalue()
    assert json.loads(terminal.getvalue()) == [{"prompt": ODD}]


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.thorough)])
def test_a_terminal_without_unicode_gets_stand_ins(run_folder: Path, encoding: str) -> None:
    done = run(["show", str(run_folder)], PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "prompt x part x reduction" in done.stdout or "prompt × part × reduction" in done.stdout
    assert done.stdout.isascii() or encoding == "latin-1"
    listed = run(["show", "names", "measures", "--format", "json"], PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert json.loads(listed.stdout)[6]["name"] == "depth_score"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = run(["show", "names", "presets"], stdout=full)
    assert (
        done.stderr == "error: Standard output cannot be written (No space left on device); make room, or send it "
        "elsewhere.\n"
    )
    assert done.returncode == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str) -> None:
    line = f"'{sys.executable}' -m bathyscope show names presets {closed}"
    assert subprocess.run(["sh", "-c", line], capture_output=True, check=False).returncode == 0


def test_numbers_stand_right_and_missing_ones_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    table_printing.write_table(
        ("name", "share"), [["a", 0.25], ["b [c]", None], ["long name", float("nan")]], "Title", ["Below."]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "share"]
    assert lines[3:6] == ["a           0.25", "b [c]          –", "long name      –"]
    assert lines[6] == "Below."


@pytest.mark.parametrize("columns", [60, 200])
def test_a_long_list_ends_its_lines_behind_commas(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the blocks that a third of a model's are: no number is cut in two."""
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    blocks = ",".join(f"drop:{block}" for block in range(5, 31))
    table_printing.write_table(("candidate", "left out", "cost"), [["choice", blocks, 0.25], ["last", "drop:30", 0.5]])
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= columns
    assert re.findall(r"drop:\d+\b", " ".join(lines)) == [f"drop:{block}" for block in [*range(5, 31), 30]]


def test_words_are_whole_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest column gives way; where not even all words fit, each cell has lines of its own."""
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    for columns in ("46", "24"):
        monkeypatch.setenv("COLUMNS", columns)
        out.truncate(0)
        table_printing.write_table(
            ("name", "meaning", "share"), [["crossing_share", "how many resamples meet the criterion", 0.25]]
        )
        lines = [re.sub(r"\x1b\[\d*m", "", line) for line in out.getvalue().replace("\0", "").splitlines()]
        assert max(map(len, lines)) <= int(columns)
        words = " ".join(lines).split()
        assert "criterion" in words
        assert words.count("crossing_share") == 1
