"""Files of others: what is no file, what lies elsewhere and what is too large is refused, and nobody is waited for."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from bathyscope.core.atomic import create, partial_name, write_atomically
from bathyscope.core.foreign import MOST, UnsafeFileError, open_regular, read_regular, require_inside, require_regular


@pytest.mark.parametrize("kind", ["FIFO", "socket", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "entry"
    listening = socket.socket(socket.AF_UNIX)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        listening.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    try:
        for read in (read_regular, open_regular, require_regular):
            with pytest.raises(UnsafeFileError) as caught:
                read(path)
            assert caught.value.strerror == f"it is a {kind}, and only regular files are read"
    finally:
        listening.close()


def test_a_link_is_followed_inside_of_its_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "own").write_bytes(b"own")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "near").symlink_to("own")
    (folder / "away").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to("circle")
    assert read_regular(folder / "near", folder) == b"own"
    with pytest.raises(UnsafeFileError) as caught:
        read_regular(folder / "away", folder)
    assert caught.value.strerror == f"it is a link that leaves {str(folder)!r}, and such links are not followed"
    assert "secret" not in str(caught.value)
    with pytest.raises(OSError, match=r"circle|symbolic links"):
        read_regular(folder / "circle", folder)
    # what a user types may be a link, and so may the folder
    (tmp_path / "typed").symlink_to(folder)
    assert read_regular(tmp_path / "typed" / "own", tmp_path / "typed") == b"own"
    assert read_regular(folder / "away") == b"secret"
    with pytest.raises(UnsafeFileError):
        read_regular(folder / ".." / "secret", folder)
    # no link, and "its folder" by its letters alone
    with pytest.raises(UnsafeFileError):
        require_inside(folder / "..", folder)


def test_files_of_the_hubs_cache_are_links_to_its_blobs(tmp_path: Path) -> None:
    model = tmp_path / "models--owner--name"
    snapshot = model / "snapshots" / "0123"
    for folder in (snapshot / "controls", model / "blobs", model / "other"):
        folder.mkdir(parents=True)
    (model / "blobs" / "abcd").write_bytes(b"weights")
    (model / "other" / "abcd").write_bytes(b"else")
    (snapshot / "file").symlink_to("../../blobs/abcd")
    (snapshot / "controls" / "file").symlink_to("../../../blobs/abcd")
    (snapshot / "elsewhere").symlink_to("../../other/abcd")
    assert read_regular(snapshot / "file", snapshot) == b"weights"
    assert read_regular(snapshot / "controls" / "file", snapshot / "controls") == b"weights"
    with pytest.raises(UnsafeFileError):
        require_inside(snapshot / "elsewhere", snapshot)


def test_a_file_larger_than_is_said_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(1 << 33)
    for check in (read_regular, require_regular):
        with pytest.raises(UnsafeFileError) as caught:
            check(path, most=1 << 20)
        assert caught.value.strerror == "it has 8.0 GiB, and at most 1 MiB are read"
    small = tmp_path / "small"
    small.write_bytes(b"four")
    assert read_regular(small, most=4) == b"four"
    with pytest.raises(UnsafeFileError):
        read_regular(small, most=3)


def test_what_others_prepare_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result").symlink_to(victim)
    write_atomically(folder / "result", b"new", folder)
    assert victim.read_bytes() == b"untouched"
    assert not (folder / "result").is_symlink()
    assert (folder / "result").read_bytes() == b"new"
    (folder / "taken").symlink_to(victim)
    with pytest.raises(FileExistsError):
        create(folder / "taken")
    (folder / "inner").symlink_to(tmp_path)
    with pytest.raises(UnsafeFileError):
        write_atomically(folder / "inner" / "victim", b"new", folder)
    assert victim.read_bytes() == b"untouched"
    assert len({partial_name(folder / "result") for _ in range(100)}) == 100
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "result", "taken"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not tell holes")
def test_a_large_file_of_holes_is_not_read(tmp_path: Path) -> None:
    for written in (b"", b"x" * 4096):
        with (tmp_path / "hollow").open("wb") as stream:
            stream.write(written)
            stream.truncate(1 << 34)
        if (tmp_path / "hollow").stat().st_blocks * 512 > 1 << 20:
            pytest.skip("files have no holes here")
        with pytest.raises(UnsafeFileError, match=r"has 16\.0 GiB, nearly none of which was ever written"):
            read_regular(tmp_path / "hollow", most=MOST)
    with (tmp_path / "half").open("wb") as stream:
        stream.truncate((1 << 26) + 1)
        stream.seek(1 << 26)
        stream.write(b"y" * (1 << 21))
    assert len(read_regular(tmp_path / "half", most=MOST)) == (1 << 26) + (1 << 21)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not tell holes")
def test_a_library_is_given_no_large_file_of_holes(tmp_path: Path) -> None:
    with (tmp_path / "hollow").open("wb") as stream:
        stream.write(b"x" * 4096)
        stream.truncate(1 << 34)
    if (tmp_path / "hollow").stat().st_blocks * 512 > 1 << 20:
        pytest.skip("files have no holes here")
    with pytest.raises(UnsafeFileError, match=r"has 16\.0 GiB, nearly none of which was ever written"):
        require_regular(tmp_path / "hollow", most=MOST)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not tell holes")
def test_a_file_is_looked_through_for_holes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"z" * ((1 << 26) + 1)
    (tmp_path / "large").write_bytes(content)
    opened: list[object] = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(path) or plain(path, *rest))
    assert read_regular(tmp_path / "large", most=MOST) == content
    assert opened == [tmp_path / "large"]
