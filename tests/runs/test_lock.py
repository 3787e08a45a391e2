"""One process at a time writes a run, and a dead one holds nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.synthetic_runs import identity, shard

from bathyscope.errors import StoreError
from bathyscope.runs.opening import open_run
from bathyscope.runs.writer import RunWriter

HOLDER = """
import sys, time
from pathlib import Path
from bathyscope.runs.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_second_writer_is_refused_by_name_and_gets_in_when_the_first_is_killed(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path, identity()):
        pass
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError) as caught:
            RunWriter.open(tmp_path, identity())
        holder.send_signal(signal.SIGKILL)
    message = str(caught.value)
    assert f"is being written by process {holder.pid} on {socket.gethostname()}; one process at a time" in message
    assert "Wait until it ends, stop it, or give another folder" in message
    with RunWriter.open(tmp_path, identity()) as writer:
        writer.write(0, shard(0, 2))


def test_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with (
        RunWriter.open(tmp_path, identity()),
        pytest.raises(StoreError, match=f"written by process {os.getpid()} on"),
    ):
        RunWriter.open(tmp_path, identity())


def test_finish_close_and_failure_release(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path, identity(2))
    writer.write(0, shard(0, 2))
    writer.finish({})
    second = RunWriter.open(tmp_path, identity(2))
    second.close()
    second.close()
    for _ in range(2):
        with pytest.raises(StoreError, match="belongs to another configuration"):
            RunWriter.open(tmp_path, identity(2, seed=1))
    with pytest.raises(KeyboardInterrupt), RunWriter.open(tmp_path, identity(2)):
        raise KeyboardInterrupt
    with RunWriter.open(tmp_path, identity(2)):
        assert open_run(tmp_path).measures  # readers need no lock
    assert not (tmp_path / ".owner").exists()


def test_refused_writer_leaves_the_holders_files_alone(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path, identity()):
        (tmp_path / ".partial-1-shard-00000.nc").write_bytes(b"in the making")
        with pytest.raises(StoreError, match="is being written"):
            RunWriter.open(tmp_path, identity())
        assert (tmp_path / ".partial-1-shard-00000.nc").exists()
        assert (tmp_path / ".owner").exists()
