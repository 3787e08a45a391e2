"""Gzipped files: what they unpack to is read as it is, and refused beyond what texts are."""

from __future__ import annotations

import gzip
from io import TextIOWrapper
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bathyscope.core import expanding
from bathyscope.errors import PromptError
from bathyscope.prompts.files import open_text, read_rows, rows_at_once
from bathyscope.prompts.prompt_rows import read_prompts


def bomb(path: Path, beginning: bytes = b"", ending: bytes = b"") -> Path:
    """Write a file of some hundred kilobytes that unpacks to 65 MiB."""
    with gzip.open(path, "wb") as stream:
        stream.write(beginning)
        for _ in range(65):
            stream.write(b"a" * (1 << 20))
        stream.write(ending)
    assert path.stat().st_size < 1 << 18
    return path


def test_files_that_unpack_to_more_than_texts_do_are_refused_while_they_are_read(tmp_path: Path) -> None:
    lines = bomb(tmp_path / "p.jsonl.gz", b'{"text": "', b'"}\n')
    table = bomb(tmp_path / "p.csv.gz", b"text\n", b"\n")
    text = bomb(tmp_path / "p.txt.gz")
    message = r"p\.\w+\.gz cannot be read: its [\d,]+ bytes unpack to more than 64 MiB, as no text's do"
    with pytest.raises(PromptError, match=message):
        read_prompts(str(lines), count=1)
    with pytest.raises(PromptError, match=message):
        list(read_rows(table))
    with pytest.raises(PromptError, match=message), open_text(text) as file:
        file.read()


def test_a_line_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expanding, "MOST_TEXT", 1 << 20)
    file = tmp_path / "p.txt.gz"
    file.write_bytes(gzip.compress(b"b" * (1 << 19) + b"\n" + b"a" * (1 << 19) + b"\n" + b"a" * (1 << 21)))
    lengths: list[int] = []
    with pytest.raises(PromptError, match="it has a line of more than 1 MiB"), open_text(file) as stream:
        lengths.extend(map(len, stream))
    assert lengths == [(1 << 19) + 1] * 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40)),
    members=st.integers(1, 3),
)
def test_honest_files_are_read_as_they_are(lines: list[str], members: int, tmp_path: Path) -> None:
    file = tmp_path / "p.txt.gz"
    content = "".join(f"{line}\n" for line in lines)
    file.write_bytes(gzip.compress(content.encode()) * members)
    with open_text(file) as stream:
        assert stream.read() == content * members


def test_what_is_read_again_from_the_beginning_is_counted_again(tmp_path: Path) -> None:
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(b"One line.\nTwo lines.\n"))
    with packed.open("rb") as stream:
        text = TextIOWrapper(expanding.unpacked(packed, stream), encoding="utf-8")
        assert text.read() == "One line.\nTwo lines.\n"
        text.seek(0)
        assert text.read() == "One line.\nTwo lines.\n"
        with pytest.raises(OSError, match="read from its beginning"):
            text.buffer.seek(5)


def test_what_a_small_file_unpacks_to_is_counted_before_its_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"text": "a"}\n' * (5 << 20), 1))
    assert file.stat().st_size < 1 << 20
    rows = read_rows(file)
    with pytest.raises(PromptError, match="unpack to more than 64 MiB"):
        next(iter(rows))


def test_a_parquet_table_unpacks_to_what_tables_do(tmp_path: Path) -> None:
    """A dictionary of long values takes a hundredth of them on the disk."""
    file = tmp_path / "p.parquet"
    values = pyarrow.array(["a" * (17 << 20), "b" * (17 << 20), "c" * (17 << 20), "d" * (17 << 20)])
    pyarrow.parquet.write_table(pyarrow.table({"text": values}), file, compression="zstd")
    assert file.stat().st_size < 1 << 20
    with pytest.raises(PromptError, match=r"its [\d,]+ bytes unpack to 68 MiB, as no table's do\. Give a parquet"):
        next(iter(read_rows(file)))


def test_rows_of_one_long_value_are_unpacked_a_few_at_a_time(tmp_path: Path) -> None:
    """The value lies in the file once, and would be in memory once for each of a thousand rows."""
    file = tmp_path / "p.parquet"
    sizes = []
    for value in ("a", "a" * (2 << 20)):
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1000, pyarrow.int32()), [value])
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), file, compression="zstd", store_schema=False)
        sizes.append(rows_at_once(file, pyarrow.parquet.ParquetFile(file).metadata))
        assert next(iter(read_rows(file)))["text"] == value
    assert sizes[0] == 1024
    # 256 MiB
    assert 8 <= sizes[1] <= 128
