"""A run that is saved is the run that would have been written there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.synthetic_runs import identity, shard, summary

from bathyscope.errors import StoreError
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.writer import RunWriter


def written(path: Path | None) -> Run:
    with RunWriter.open(path, identity()) as writer:
        writer.attach("prompts", "prompts.jsonl", b'{"id": "0"}\n')
        for index in reversed(writer.missing):
            writer.write(index, shard(*identity()["plan"][index]))
        return writer.finish(summary(writer.merged()))


def contents(path: Path) -> dict[str, bytes]:
    """Every file of results by its name, and what the manifest lists."""
    record = json.loads((path / "manifest.json").read_text())["record"]
    listed = json.dumps([record["shards"], record["derived"], record["files"]]).encode()
    return {"listed": listed, **{p.name: p.read_bytes() for p in path.iterdir() if p.suffix in (".nc", ".jsonl")}}


def test_a_run_from_memory_is_saved_as_it_would_have_been_written(tmp_path: Path) -> None:
    on_disk, in_memory = written(tmp_path / "written"), written(None)
    assert in_memory.path is None
    saved = in_memory.save(tmp_path / "saved")
    assert saved.path == tmp_path / "saved"
    assert contents(tmp_path / "saved") == contents(tmp_path / "written")
    assert saved.tree.identical(on_disk.tree)
    assert saved.files == on_disk.files


def test_a_run_of_a_folder_is_copied(tmp_path: Path) -> None:
    written(tmp_path / "written").save(tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "written")
    assert open_run(tmp_path / "copy").manifest == open_run(tmp_path / "written").manifest


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    run = written(tmp_path / "written")
    with pytest.raises(StoreError, match=r"There is a run in .*written' already; save into another folder"):
        run.save(tmp_path / "written")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty either"):
        run.save(tmp_path / "other")
    with RunWriter.open(tmp_path / "begun", identity()) as writer:
        writer.write(0, shard(*identity()["plan"][0]))
    with pytest.raises(StoreError, match="Only finished runs are saved"):
        open_run(tmp_path / "begun", partial=True).save(tmp_path / "elsewhere")
    (tmp_path / "written" / "derived.nc").write_bytes(b"altered")
    with pytest.raises(StoreError, match="is not the file that was written"):
        run.save(tmp_path / "third")
