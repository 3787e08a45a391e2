"""Which process of a command speaks, and what it takes for a flag."""

from __future__ import annotations

import pytest

from bathyscope.cli import session
from bathyscope.cli.console import say, write
from bathyscope.cli.main import main
from bathyscope.cli.over_ranks import leave_words_to_first, split_in


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("survey m --tensor-parallel auto", "auto"),
        ("survey m --tensor-parallel=4 --out x", "4"),
        ("survey m --tensor-parallel", ""),
        ("survey m --tensor-parallels 4", None),
        ("survey m", None),
    ],
)
def test_the_flag_is_found_before_anything_is_parsed(line: str, split: str | None) -> None:
    assert split_in(line.split()) == split


@pytest.mark.parametrize(("rank", "heard"), [("0", "words\nnumbers\n"), ("1", "")])
def test_rank_0_alone_speaks(
    rank: str, heard: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    session.begin(["survey", "m"])
    leave_words_to_first("auto")
    say("words")
    write("numbers")
    printed = capsys.readouterr()
    assert printed.err + printed.out == heard
    session.begin([])


def test_a_model_that_is_whole_leaves_words_to_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    session.begin(["survey", "m"])
    leave_words_to_first(None)
    say("words")
    assert capsys.readouterr().err == "words\n"


def test_a_command_that_was_started_alone_says_how_several_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert main(["check", "nowhere", "--tensor-parallel", "2"]) == 2
    assert "this one was started alone. Start them with torchrun --nproc-per-node 2 -m" in capsys.readouterr().err
    assert main(["check", "nowhere", "--tensor-parallel", "1"]) == 2
    assert "tensor_parallel='1' is no number of processes" in capsys.readouterr().err
    assert main(["export", "nowhere", "--schedule", "drop:1", "--out", "copy", "--tensor-parallel", "2"]) == 2
    assert "--tensor-parallel" in capsys.readouterr().err
