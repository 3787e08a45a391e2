"""kill -9 at any moment loses no finished shard, and the resumed run has the bits of an uninterrupted one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import warm
from support.synthetic_runs import bits, identity, small_shard, small_summary

from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.writer import RunWriter

DRIVER = Path(__file__).resolve().parents[1] / "support" / "crash_driver.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks the processes it kills")


def drive(folder: Path, *arguments: str) -> dict[str, Any]:
    ended = warm.run([str(DRIVER), str(folder), *arguments])
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def uninterrupted(prompts: int, batch: int, path: Path) -> Run:
    settings = identity(prompts, batch)
    with RunWriter.open(path, settings) as writer:
        for index in writer.missing:
            writer.write(index, small_shard(*settings["plan"][index]))
        return writer.finish(small_summary(writer.merged()))


def same_bits(one: Run, other: Run) -> bool:
    return {name: bits(one[name]) for name in one.measures} == {name: bits(other[name]) for name in other.measures}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.nc")}


def files_listed(folder: Path) -> list[Any]:
    record = json.loads((folder / "manifest.json").read_text())["record"]
    return [*record["shards"], record["derived"], record["finished"] is not None]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM])
def test_a_program_that_is_ended_amid_a_survey_keeps_what_is_finished(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM, which batch schedulers send, is answered as Ctrl-C is; the folder is let go in order."""
    command = [sys.executable, str(DRIVER.with_name("ended_driver.py")), str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "kept\n"
        program.send_signal(number)
        assert program.stdout.readline() == "answered\n"
    assert program.returncode == 0
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == [".lock", "manifest.json", "prompts.jsonl", "shard-00000.nc"]
    assert open_run(tmp_path / "run", partial=True)["residual"].sizes["prompt"] == 1


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_random_kills(tmp_path: Path, seed: int) -> None:
    happened = drive(tmp_path, "random", str(seed))
    assert happened["kills"] >= 5, "too few kills to mean anything; draw earlier moments"
    assert len(set(happened["shards"])) >= 2, "the kills did not fall at different stages"
    whole = uninterrupted(9, 1, tmp_path / "whole")
    assert same_bits(open_run(tmp_path / "killed"), whole)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_kill_before_every_change_of_the_disk(tmp_path: Path) -> None:
    kills = drive(tmp_path, "every")["kills"]
    # Probe, first manifest, then two shards and the run-level file with a manifest each: every one of these 8
    # files has at least a sync, a rename and a sync of its folder.
    assert kills >= 3 * 8
    whole = uninterrupted(4, 2, tmp_path / "whole")
    assert same_bits(open_run(tmp_path / f"killed-{kills:03d}"), whole)
    for n in range(1, kills + 1):
        folder = tmp_path / f"killed-{n:03d}"
        assert files(folder) == files(tmp_path / "whole"), n
        assert files_listed(folder) == files_listed(tmp_path / "whole"), n
        assert not list(folder.glob(".partial-*")), n
