"""Pieces are found as they were put, by whoever asks for the same, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bathyscope.errors import StoreError
from bathyscope.runs.folder import Kind
from bathyscope.runs.pieces import Pieces

KIND = Kind("search", "a search", "search.json", schemas=(1,))


def opened(path: Path, seed: int = 0) -> Pieces:
    return Pieces(path, KIND, {"seed": seed, "sizes": (1, 2)})


def test_what_was_put_is_found_again(tmp_path: Path) -> None:
    with opened(tmp_path) as pieces:
        assert pieces.find("costs/first.nc") is None
        pieces.put("costs/first.nc", b"one")
        pieces.put("last.json", b"two")
    assert json.loads((tmp_path / "search.json").read_text())["identity"] == {"seed": 0, "sizes": [1, 2]}
    with opened(tmp_path) as pieces:
        assert (pieces.find("costs/first.nc"), pieces.find("last.json")) == (b"one", b"two")
        (tmp_path / "last.json").unlink()
        assert pieces.find("last.json") is None, "it is to be computed anew"


def test_a_file_that_was_not_put_is_none_of_them(tmp_path: Path) -> None:
    with opened(tmp_path) as pieces:
        (tmp_path / "first.nc").write_bytes(b"one")
        assert pieces.find("first.nc") is None
        pieces.put("first.nc", b"one")
        (tmp_path / "first.nc").write_bytes(b"two")
        with pytest.raises(StoreError, match=r"first\.nc.*is not the file that was written"):
            pieces.find("first.nc")


def test_another_configuration_is_refused_and_the_folder_let_go(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(StoreError, match="seed: search has 0, asked for 1"):
        opened(tmp_path, seed=1)
    (tmp_path / "search.json").write_text('{"schema": 1, "identity": {"seed": 0, "sizes": [1, 2]}}')
    with pytest.raises(StoreError, match=r"search\.json"):
        opened(tmp_path)
    (tmp_path / "search.json").unlink()
    opened(tmp_path).close()
