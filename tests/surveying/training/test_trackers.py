"""The depths and the profile arrive in what a Trainer reports to: the trackers' own files are read back.

What was logged is what the surveys say: to the bit in W&B, MLflow and Trackio, and in single precision in TensorBoard.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.trainings import PROMPTS, assert_same, trained
from transformers import TrainerCallback

from bathyscope.runs.opening import open_run
from bathyscope.surveying.training.folder import run_folder
from bathyscope.surveying.training.steps import depths_of
from bathyscope.training import DepthCallback

pytestmark = pytest.mark.filterwarnings("ignore")
SECONDS = "depth/seconds"
NAMES = ("readable", "own", "later", "seconds")


def logged_by(tracker: str, folder: Path, **arguments: Any) -> dict[int, dict[str, float]]:
    """Train under the callback, reporting to a tracker; return the depths of the surveys, by step, with their times."""
    callback = DepthCallback(PROMPTS, every=3, out=folder / "course", progress=False)
    trainer, _ = trained(folder / "t", callback, report_to=[tracker], **arguments)
    rows = {row["step"]: row for row in trainer.state.log_history if "depth/own" in row}
    surveys = {step: depths_of(open_run(run_folder(folder / "course", step))) for step in (0, 3, 6)}
    assert sorted(rows) == [0, 3, 6]
    return {
        step: {name: (depths | {SECONDS: rows[step][SECONDS]})[f"depth/{name}"] for name in NAMES}
        for step, depths in surveys.items()
    }


def profile(folder: Path, step: int) -> np.ndarray:
    """Return the picture that the run of a step draws, as pixels."""
    buffer = io.BytesIO()
    open_run(run_folder(folder / "course", step)).plot("profile").savefig(buffer, format="png", dpi="figure")
    return pixels_of(buffer.getvalue())


def pixels_of(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


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
        assert read == {step: np.float32(values[name]) for step, values in logged.items()}
    events = EventAccumulator(str(tmp_path / "events"), size_guidance={"images": 0})
    events.Reload()
    pictures = {event.step: event.encoded_image_string for event in events.Images("train/depth/profile")}
    assert sorted(pictures) == [0, 3, 6]
    for step, content in pictures.items():
        assert np.array_equal(pixels_of(content), profile(tmp_path, step))


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
    pictures: dict[int, str] = {}
    for content in log_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        items = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        if "depth/own" in items or "train/depth/own" in items:
            prefix = "train/" if "train/depth/own" in items else ""
            step = int(float(items["train/global_step"]))
            read[step] = {name: float(items[f"{prefix}depth/{name}"]) for name in NAMES}
        if "train/depth/profile/path" in items:
            pictures[int(float(items["train/global_step"]))] = json.loads(items["train/depth/profile/path"])
    assert read == logged
    assert sorted(pictures) == [0, 3, 6]
    for step, name in pictures.items():
        assert np.array_equal(pixels_of((path.parent / "files" / name).read_bytes()), profile(tmp_path, step))


def test_mlflow_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    # the store of files, which later versions leave aside
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    logged = logged_by("mlflow", tmp_path)
    (folder,) = (tmp_path / "mlruns").glob("*/*/metrics/depth")
    for name in NAMES:
        lines = [line.split() for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        assert {int(step): float(value) for _, value, step in lines} == {
            step: values[name] for step, values in logged.items()
        }
    images = folder.parents[1] / "artifacts" / "images"
    # versions put other signs between the parts of a name
    steps = {path: re.match(r"depth\Wprofile\Wstep\W(\d+)\W", path.name) for path in images.glob("*.png")}
    pictures = {int(step[1]): path for path, step in steps.items() if step is not None}
    assert sorted(pictures) == [0, 3, 6]
    for step, path in pictures.items():
        assert np.array_equal(pixels_of(path.read_bytes()), profile(tmp_path, step))


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
    pictures = {
        int(row["train/global_step"]): row["train/depth/profile"] for row in rows if "train/depth/profile" in row
    }
    assert sorted(pictures) == [0, 3, 6]
    for step, picture in pictures.items():
        (file,) = (tmp_path / "trackio").rglob(Path(picture["file_path"]).name)
        assert np.array_equal(pixels_of(file.read_bytes()), profile(tmp_path, step))


class _Writer:
    """Stands for TensorBoard's writer: it keeps or refuses pictures."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault, self.pictures = fault, {}

    def add_image(self, name: str, pixels: np.ndarray, step: int, dataformats: str) -> None:
        if self.fault is not None:
            raise self.fault
        assert (name, dataformats) == ("train/depth/profile", "HWC")
        self.pictures[step] = pixels


def writing(writer: _Writer) -> TrainerCallback:
    """Return what stands for transformers' callback of TensorBoard, which is looked up by its name."""
    return type("TensorBoardCallback", (TrainerCallback,), {"tb_writer": writer})()


def test_pictures_are_those_of_the_runs_and_change_nothing_of_the_training(tmp_path: Path) -> None:
    writer = _Writer()
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", progress=False)
    _, state = trained(tmp_path / "t", writing(writer), callback)
    assert sorted(writer.pictures) == [0, 3, 6]
    for step, pixels in writer.pictures.items():
        assert np.array_equal(pixels[..., :3], profile(tmp_path, step))
    assert not np.array_equal(writer.pictures[0], writer.pictures[6])
    assert_same(state, trained(tmp_path / "u")[1])


def test_no_picture_where_none_is_wanted_or_measured(tmp_path: Path) -> None:
    for number, options in enumerate(({"picture": False}, {"measures": ["lens"]})):
        writer = _Writer()
        callback = DepthCallback(PROMPTS, every=3, out=tmp_path / str(number), progress=False, **options)
        trainer, _ = trained(tmp_path / "t", writing(writer), callback, steps=1)
        assert writer.pictures == {}
        assert any("depth/readable" in row for row in trainer.state.log_history)


def test_a_tracker_that_takes_no_picture_costs_one_warning(tmp_path: Path) -> None:
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", progress=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer, _ = trained(tmp_path / "t", writing(_Writer(OSError("the disk is full"))), callback)
    assert [str(each.message) for each in caught if "profile of step" in str(each.message)] == [
        "The profile of step 0 could not be sent to a tracker, and no later one is sent (OSError: the disk is full). "
        "Numbers are logged as before; picture=False leaves pictures out."
    ]
    assert [row["step"] for row in trainer.state.log_history if "depth/own" in row] == [0, 3, 6]
