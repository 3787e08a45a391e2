"""The depths arrive in what a Trainer reports to: the trackers' own files are read back."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.trainings import PROMPTS, trained

from bathyscope.surveying.training.steps import open_course
from bathyscope.training import DepthCallback

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("readable", "own", "later", "idle_blocks", "seconds")


def logged_by(tracker: str, folder: Path, **arguments: Any) -> dict[int, dict[str, float]]:
    """Train under the callback, reporting to a tracker; return the depths that the Trainer logged, by step."""
    callback = DepthCallback(PROMPTS, every=3, out=folder / "course", progress=False)
    trainer, _ = trained(folder / "t", callback, report_to=[tracker], **arguments)
    assert open_course(folder / "course").step.values.tolist() == [0, 3, 6]
    rows = [row for row in trainer.state.log_history if "depth/own" in row]
    return {row["step"]: {name: row[f"depth/{name}"] for name in NAMES} for row in rows}


def test_tensorboard_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    logged = logged_by("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    for name in NAMES:
        (tag,) = [tag for tag in events.Tags()["scalars"] if tag.endswith(f"depth/{name}")]
        read = {event.step: event.value for event in events.Scalars(tag)}
        assert read == pytest.approx({step: values[name] for step, values in logged.items()}, rel=1e-6)


def log_records(content: bytes) -> Iterator[bytes]:
    """Read the records of a LevelDB log, which is what W&B writes offline: pieces in blocks of 32 KiB."""
    record, place = b"", 7  # behind the file's own header
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        # a whole record, or the last piece of one
        if kind in (1, 4):
            yield record
            record = b""


def test_weights_and_biases_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    from wandb.proto import wandb_internal_pb2

    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    logged = logged_by("wandb", tmp_path)
    import wandb

    wandb.finish()
    # The process that writes the file has ended only behind this.
    wandb.teardown()
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    read: dict[int, dict[str, float]] = {}
    for content in log_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        items = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        if "depth/own" in items or "train/depth/own" in items:
            prefix = "train/" if "train/depth/own" in items else ""
            step = int(float(items["train/global_step"]))
            read[step] = {name: float(items[f"{prefix}depth/{name}"]) for name in NAMES}
    assert read == logged


def test_trackio_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It reads its settings where it is imported.
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="trackio is not installed")
    logged = logged_by("trackio", tmp_path, project="depths", trackio_space_id=None)
    (path,) = (tmp_path / "trackio").rglob("depths.db")
    with sqlite3.connect(path) as database:
        rows = [json.loads(row[0]) for row in database.execute("select metrics from metrics")]
    read = {
        int(row["train/global_step"]): {name: row[f"train/depth/{name}"] for name in NAMES}
        for row in rows
        if "train/depth/own" in row
    }
    assert read == logged
