"""Pieces are found as they were put, by whoever asks for the same, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize("kind", ["link", "FIFO", "file"])
def test_what_is_no_folder_of_its_own_is_said_before_a_piece_is_computed(kind: str, tmp_path: Path) -> None:
    """It was told once the first piece was computed, with the advice to free some space."""
    (tmp_path / "elsewhere").mkdir()
    with opened(tmp_path / "run") as pieces:
        place = tmp_path / "run" / "costs"
        if kind == "link":
            place.symlink_to(tmp_path / "elsewhere")
        elif kind == "FIFO":
            os.mkfifo(place)
        else:
            place.write_text("")
        said = (
            "is a link, and the folders of a search are its own" if kind == "link" else f"is a {kind}, and a search has"
        )
        for ask in (lambda: pieces.find("costs/first.nc"), lambda: pieces.put("costs/first.nc", b"one")):
            with pytest.raises(StoreError, match=said) as caught:
                ask()
            assert "Free some space" not in str(caught.value)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_folder_in_place_of_a_piece_is_said_before_it_is_computed(tmp_path: Path) -> None:
    with opened(tmp_path) as pieces:
        (tmp_path / "costs" / "first.nc").mkdir(parents=True)
        with pytest.raises(StoreError, match=r"first\.nc' is a folder, and a search has a file of that name\. Move it"):
            pieces.find("costs/first.nc")
