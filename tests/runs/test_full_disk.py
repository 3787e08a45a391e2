"""A disk that is full stops a survey with a clear error and costs no finished shard."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import any_machine
from support.synthetic_runs import bits, identity, shard, summary

from bathyscope.errors import StoreError
from bathyscope.runs.opening import open_run
from bathyscope.runs.writer import RunWriter

# Under RLIMIT_FSIZE the kernel itself refuses to let a file grow, amid a write, as a full disk does.
LIMITED = """
import resource, sys
import numpy as np, xarray as xr
from bathyscope.errors import StoreError
from bathyscope.runs.writer import RunWriter
from support.synthetic_runs import identity
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
with RunWriter.open(sys.argv[1], identity(4)) as writer:
    writer.write(0, {"m": xr.Dataset({"x": (("prompt", "i"), np.zeros((2, 10)))})})
    try:
        writer.write(1, {"m": xr.Dataset({"x": (("prompt", "i"), np.ones((2, 50_000)))})})
    except StoreError as error:
        print(error)
"""


def test_real_limit_of_the_kernel(tmp_path: Path) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": any_machine.path(tests)},
    )
    assert ended.returncode == 0, ended.stderr
    assert "Writing shard 1 (prompts 2 to 3)" in ended.stdout
    assert "failed: File too large. 1 of 2 shards are kept and whole" in ended.stdout
    assert "run the same command again: it resumes" in ended.stdout
    assert not list((tmp_path / "run").glob(".partial-*"))
    assert not (tmp_path / "run" / "shard-00001.nc").exists()
    assert open_run(tmp_path / "run", partial=True)["m"].sizes["prompt"] == 2


CALLS = [("fsync", 0), ("fsync", 1), ("fsync", 2), ("fsync", 3), ("replace", 0), ("replace", 1)]


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("call", "moment"), CALLS)
def test_every_write_of_a_shard_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, moment: int
) -> None:
    """A shard takes four syncs and two renames (file and manifest); each fails once, and it goes on."""
    settings = identity(4)
    with RunWriter.open(tmp_path / "run", settings) as writer:
        writer.write(0, shard(0, 2))
        count, real = -1, getattr(os, call)

        def limited(*arguments: object) -> object:
            nonlocal count
            count += 1
            return no_space() if count == moment else real(*arguments)

        monkeypatch.setattr(os, call, limited)
        with pytest.raises(StoreError, match=r"No space left on device\. 1 of 2 shards are kept and whole"):
            writer.write(1, shard(2, 4))
        assert writer.finished == {0}
        assert not list((tmp_path / "run").glob(".partial-*"))
        writer.write(1, shard(2, 4))  # space has been made: the same writer goes on
        run = writer.finish(summary(writer.merged()))
    with RunWriter.open(None, settings) as memory:
        for index in memory.missing:
            memory.write(index, shard(*settings["plan"][index]))
        expected = memory.finish(summary(memory.merged()))
    assert {n: bits(run[n]) for n in run.measures} == {n: bits(expected[n]) for n in expected.measures}


def test_full_disk_is_noticed_before_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StoreError, match=r"cannot hold a run: No space left on device\. Nothing was computed"):
        RunWriter.open(tmp_path / "run", identity())
    monkeypatch.undo()
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        assert writer.finished == set()


def test_run_level_results_that_do_not_fit_keep_every_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter.open(tmp_path, identity(2)) as writer:
        writer.write(0, shard(0, 2))
        monkeypatch.setattr(os, "replace", no_space)
        with pytest.raises(
            StoreError, match=r"Writing the run-level results to .* failed: No space left on device\. 1 of 1"
        ):
            writer.finish({"noise": xr.Dataset({"floor": ((), np.float64(0))})})
        monkeypatch.undo()
        assert not writer.is_finished
        assert writer.finish({}).measures == ("skip", "erasure")
