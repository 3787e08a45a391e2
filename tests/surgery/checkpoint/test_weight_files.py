"""Safetensors files written piece by piece are what the library reads, and read like what it writes."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bathyscope.errors import ModelError
from bathyscope.surgery.checkpoint import weight_files
from bathyscope.surgery.checkpoint.weight_files import Written, bytes_of, file_hashes, grouped_bytes, kind_of, stored_in

TENSORS = {
    "a": torch.randn(3, 5),
    "odd": torch.arange(7, dtype=torch.int16),
    "b": torch.randn(16, 8).to(torch.bfloat16),
    "turned": torch.randn(6, 4).T,
    "number": torch.tensor(2.5, dtype=torch.float64),
    "flag": torch.tensor([True, False]),
    "none": torch.empty(0, 4),
    "eight": torch.randn(9).to(torch.float8_e4m3fn),
}


def written(name: str, value: torch.Tensor) -> Written:
    size = value.numel() * value.element_size()
    return Written(name, kind_of(value.dtype), tuple(value.shape), size, partial(bytes_of, value))


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return found.dtype == wanted.dtype and torch.equal(found.to(torch.float64), wanted.to(torch.float64))


def test_what_is_written_is_read_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "PIECE_BYTES", 16)
    weight_files.write_shards(tmp_path, [written(*item) for item in TENSORS.items()])
    found = load_file(tmp_path / "model.safetensors")
    assert found.keys() == TENSORS.keys()
    assert all(same(found[name], value) for name, value in TENSORS.items())
    stored = stored_in(tmp_path / "model.safetensors")
    assert [stored[name].start % 64 for name in ("b",)] == [0]
    assert {(one.kind, one.shape) for one in stored.values()} >= {("BF16", (16, 8)), ("F64", ()), ("BOOL", (2,))}


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    save_file({name: value.contiguous() for name, value in TENSORS.items()}, tmp_path / "x.safetensors")
    for name, one in stored_in(tmp_path / "x.safetensors").items():
        assert b"".join(one.pieces()) == b"".join(bytes(piece) for piece in bytes_of(TENSORS[name]))


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    save_file({"a": torch.randn(100)}, file)
    one = stored_in(file)["a"]
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ModelError, match="ends before its tensors do"):
        list(one.pieces())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_groups_along_an_axis_are_chosen(tmp_path: Path, axis: int) -> None:
    value = torch.randn(6, 9, 3) if axis < 2 else torch.randn(2, 3, 6)
    save_file({"a": value}, tmp_path / "x.safetensors")
    found = b"".join(grouped_bytes(stored_in(tmp_path / "x.safetensors")["a"], axis, 3, [2, 0, 0]))
    first, _, third = value.chunk(3, dim=axis)
    wanted = torch.cat([third, first, first], dim=axis).contiguous()
    assert found == wanted.numpy().tobytes()


def test_files_are_hashed_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    assert file_hashes([tmp_path / "a"]) == {"a": hashlib.sha256(b"one").hexdigest()}


def test_kinds_without_a_name_are_refused() -> None:
    with pytest.raises(ModelError, match=r"Weights of torch\.complex64 cannot be written"):
        kind_of(torch.complex64)
