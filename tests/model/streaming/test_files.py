"""Files that go, shrink or change while they are streamed, and tensors that are read otherwise than they are stored."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support import streamed

import bathyscope.surveying.computing
from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.streaming.carrying import InPlace, Shape
from bathyscope.model.streaming.files import CheckpointFile
from bathyscope.runs.writer import RunWriter

KEPT = "Put the checkpoint back as it was, or load the model again; finished shards are kept."


def read(file: CheckpointFile, name: str, target: torch.Tensor) -> torch.Tensor:
    with file.reading() as stream:
        file.read(stream, name, target)
    return target


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_tensors_are_what_was_saved(dtype: torch.dtype, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    tensors = {
        "a": torch.randint(0, 2, (3, 5), generator=draw).to(dtype),
        "scalar": torch.tensor(1).to(dtype),
        "none": torch.empty(0, 4).to(dtype),
        "b": torch.randint(0, 2, (7,), generator=draw).to(dtype),
    }
    save_file(tensors, tmp_path / "x.safetensors", {"format": "pt"})
    file = CheckpointFile(tmp_path / "x.safetensors")
    for name, wanted in tensors.items():
        assert torch.equal(read(file, name, torch.empty_like(wanted)), wanted)


def test_tensors_are_converted(tmp_path: Path) -> None:
    value = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    save_file({"a": value}, tmp_path / "x.safetensors")
    found = read(CheckpointFile(tmp_path / "x.safetensors"), "a", torch.empty(4, 4, dtype=torch.bfloat16))
    assert torch.equal(found, value.bfloat16())


def test_a_header_has_at_most_a_hundred_megabytes(tmp_path: Path) -> None:
    longest = 100_000_000
    for length, message in (
        (longest + 1, r"a header of 100,000,001 bytes, and at most 100,000,000 are read"),
        (longest, "JSONDecodeError"),
    ):
        (tmp_path / "x.safetensors").write_bytes(length.to_bytes(8, "little") + b"{")
        with pytest.raises(ModelError, match=message):
            _ = CheckpointFile(tmp_path / "x.safetensors").places


def test_tensors_begin_at_a_cache_line() -> None:
    """Kernels add up in another order elsewhere."""
    shapes = {str(number): Shape((3, number), torch.float32) for number in (5, 6, 7)}
    host = InPlace().bring(shapes, lambda host: [tensor.fill_(1.0) for tensor in host.values()] and None).tensors
    for number, tensor in host.items():
        assert tensor.data_ptr() % 64 == 0
        assert torch.equal(tensor, torch.ones(3, int(number)))


def test_a_block_is_one_piece_of_memory_in_which_no_tensor_touches_another() -> None:
    """Smaller pieces would stay with the process when the block has gone."""
    shapes = {"a": Shape((3, 5), torch.float32), "b": Shape((7,), torch.bfloat16), "c": Shape((), torch.float64)}

    def fill(host: Mapping[str, torch.Tensor]) -> None:
        for number, tensor in enumerate(host.values()):
            tensor.fill_(number)

    found = InPlace().bring(shapes, fill).tensors
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == 1
    for number, (name, tensor) in enumerate(found.items()):
        assert (tensor.dtype, tuple(tensor.shape)) == (shapes[name].dtype, shapes[name].sizes)
        assert bool((tensor == number).all())


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


def touch(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut, r"model.safetensors has changed since the model was loaded \(its size is [\d,]+ bytes and was [\d,]+\)"),
        (touch, r"model.safetensors has changed since the model was loaded \(it was written again\)"),
        (Path.unlink, r"model.safetensors, from which blocks are streamed, cannot be opened \(No such file"),
    ],
)
def test_a_file_that_changes_ends_the_survey_and_keeps_its_shards(
    harm: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    whole = streamed.hashes(load(folder, placement="resident"), tmp_path / "whole", ["drop"])
    before = (folder / "model.safetensors").read_bytes()
    model, write = streamed.streamed(folder), RunWriter.write
    monkeypatch.setattr(bathyscope.surveying.computing, "free_bytes", lambda device: 0)

    def harmed(writer: RunWriter, index: int, found: Any) -> None:
        write(writer, index, found)
        harm(folder / "model.safetensors")

    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, "write", harmed)
        with pytest.raises(ModelError, match=message) as caught:
            streamed.hashes(model, tmp_path / "run", ["drop"])
    assert str(caught.value).endswith(KEPT)
    assert [path.name for path in (tmp_path / "run").glob("shard-*.nc")] == ["shard-00000.nc"]
    with pytest.raises(ModelError, match=r"model\.safetensors has changed|model\.safetensors, from which"):
        streamed.hashes(model, tmp_path / "run", ["drop"])
    (folder / "model.safetensors").write_bytes(before)
    assert streamed.hashes(streamed.streamed(folder), tmp_path / "run", ["drop"]) == whole


def test_files_are_found_from_wherever_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streamed.saved("llama", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    model, whole = streamed.streamed(Path("model")), load("model", placement="resident")
    monkeypatch.chdir("/")
    there, here = (streamed.hashes(one, tmp_path / name, ["drop"]) for one, name in ((model, "there"), (whole, "here")))
    assert there == here


def test_a_file_cut_short_while_it_is_read(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(100)}, tmp_path / "x.safetensors")
    file = CheckpointFile(tmp_path / "x.safetensors")
    assert file.places
    with pytest.raises(ModelError, match="has been cut short while it was streamed"), file.reading() as stream:  # noqa: PT012
        cut_to = file.places["a"].start + 40
        os.truncate(tmp_path / "x.safetensors", cut_to)
        file.read(stream, "a", torch.empty(100))


def with_header(folder: Path, **entries: Any) -> Path:
    """A file of ``a`` [2, 3] and ``b`` [4] in float32, with other entries in its header."""
    path = folder / "x.safetensors"
    save_file({"a": torch.ones(2, 3), "b": torch.ones(4)}, path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for name, entry in entries.items():
        header[name] = {**header.get(name, {}), **entry}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return path


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": {"shape": "23"}}, "a shape or a place that is not of whole numbers"),
        ({"a": {"shape": [True, 6]}}, "a shape or a place that is not of whole numbers"),
        ({"a": {"shape": [-2, -3]}}, "a shape or a place that is not of whole numbers"),
        ({"a": {"data_offsets": [-24, 0]}}, "a shape or a place that is not of whole numbers"),
        ({"a": {"data_offsets": [0.0, 24.0]}}, "a shape or a place that is not of whole numbers"),
        ({"a": {"shape": [1 << 40]}}, r"its header gives a 24 bytes, and \[1099511627776\] numbers take 4,398"),
        ({"a": {"data_offsets": [24, 0]}}, r"its header gives a -24 bytes"),
        ({"b": {"data_offsets": [16, 32]}}, "a and b share bytes"),
        ({"c": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}, "a and c share bytes"),
    ],
)
def test_a_header_declares_no_more_than_its_file_holds(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        _ = CheckpointFile(with_header(tmp_path, **entries)).places


def test_a_header_is_no_longer_than_the_library_reads_one(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 100_000_001) + b"{}")
    with pytest.raises(ModelError, match="a header of 100,000,001 bytes, and at most 100,000,000 are read"):
        _ = CheckpointFile(path).places
