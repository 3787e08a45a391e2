"""Paths as users give them: what no file system takes is refused in a sentence, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import zoo

import bathyscope
from bathyscope.core.paths import given_path, impossible
from bathyscope.errors import BathyscopeError, OptionError

WRONG = {
    "x" * 300: "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… is too long (300 characters; a name may have 255 bytes)",
    "ü" * 128: "'üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü… is too long (128 characters; a name may have 255 bytes)",
    "run\ud800": "'run\\ud800' holds half a character (a lone surrogate)",
    "run\0": "'run\\x00' holds a null character",
    "~nobody-of-this-name/run": "'~nobody-of-this-name/run' begins with the home of an unknown user",
}


@pytest.mark.parametrize(("path", "reason"), WRONG.items())
def test_paths_that_no_file_system_takes_are_refused(path: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        given_path(path, "out")
    assert str(caught.value) == f"out={reason}. Give another path, such as 'runs/qwen'."


def test_the_longest_names_are_taken(tmp_path: Path) -> None:
    """As this machine's own file system has it: 255 bytes are a name, and 256 are none."""
    for name in ("x" * 255, "ü" * 127):
        assert impossible(name) == ""
        (tmp_path / name).touch()
    for name in ("x" * 256, "ü" * 128):
        assert impossible(name) != ""
        with pytest.raises(OSError, match="too long"):
            (tmp_path / name).touch()
    assert given_path("~", "out") == Path.home()


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    return bathyscope.survey(zoo.build("llama"), [list(range(3, 17))], ["lens"], progress=False)


CALLS: dict[str, Callable[[bathyscope.Run, Any], object]] = {
    "survey": lambda run, path: bathyscope.survey(zoo.build("llama"), [[1, 2]], ["lens"], path, progress=False),
    "open": lambda run, path: bathyscope.open(path),
    "save": lambda run, path: run.save(path),
    "report": lambda run, path: bathyscope.report([run], f"{path}.html"),
    "join": lambda run, path: bathyscope.join([path], "joined"),
    "grid": lambda run, path: bathyscope.grid("grid.yaml", out=path),
    "load": lambda run, path: bathyscope.load(path),
    "prompts": lambda run, path: bathyscope.survey("model", f"{path}.jsonl"),
    "depth_performance": lambda run, path: bathyscope.depth_performance(f"{path}.csv", score="score"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("path", WRONG)
def test_every_call_refuses_them_in_a_sentence(
    run: bathyscope.Run, call: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text("models: [m]\nprompts: [gsm8k:1]\n")
    with pytest.raises(BathyscopeError) as caught:
        CALLS[call](run, path)
    assert len(str(caught.value)) < 400
    assert os.listdir(tmp_path) == ["grid.yaml"]
