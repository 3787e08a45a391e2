from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from support.letter_tokenizer import letter_tokenizer

from bathyscope.errors import PromptError
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.files import open_text, read_rows


def test_text_is_the_same_plain_gzipped_and_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = "Zwölf Enten – 16 eggs\nper day"
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for name in ("a.txt", "a.txt.gz", "bom.txt"):
        with open_text(tmp_path / name) as file:
            assert file.read() == text


def test_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "stories.txt").write_text("x")
    with pytest.raises(PromptError, match=r"storeis\.txt does not exist\. Did you mean 'stories\.txt'\?"):
        open_text(tmp_path / "storeis.txt").__enter__()
    with pytest.raises(PromptError, match=r"does not exist \(nor does the folder .*nowhere\)"):
        open_text(tmp_path / "nowhere" / "a.txt").__enter__()
    with pytest.raises(PromptError, match="is a folder; give a file"):
        open_text(tmp_path).__enter__()


def test_unreadable_text(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with (
        pytest.raises(PromptError, match=r"latin\.txt is not UTF-8 text .*convert it"),
        open_text(tmp_path / "latin.txt") as file,
    ):
        file.read()
    whole = gzip.compress(b"some text to compress " * 100)
    for name, content in (("cut.txt.gz", whole[:-20]), ("plain.txt.gz", b"not gzip at all")):
        (tmp_path / name).write_bytes(content)
        with (
            pytest.raises(PromptError, match=rf"{name} cannot be read: "),
            open_text(tmp_path / name) as file,
        ):
            file.read()


def test_rows_of_every_kind_of_file(tmp_path: Path, write_jsonl: Callable[..., str]) -> None:
    rows = [
        {"ctx": "a, b", "endings": ["x", 'y "z"'], "label": 1},
        {"ctx": "c\nd", "endings": [], "label": 0},
    ]
    path = write_jsonl(*rows)
    assert list(read_rows(path)) == rows
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(Path(path).read_bytes()))
    assert list(read_rows(tmp_path / "rows.jsonl.gz")) == rows
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert list(read_rows(tmp_path / "rows.parquet")) == rows
    (tmp_path / "rows.csv").write_text('ctx,label\n"a, b",1\n"c\nd",NA\n')
    assert list(read_rows(tmp_path / "rows.csv")) == [
        {"ctx": "a, b", "label": "1"},
        {"ctx": "c\nd", "label": "NA"},
    ]


def test_bad_rows_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n{"a": \n')
    with pytest.raises(PromptError, match=r"a\.jsonl, line 3, character \d+: not JSON"):
        list(read_rows(tmp_path / "a.jsonl"))
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n[1, 2]\n')
    with pytest.raises(PromptError, match=r"b\.jsonl, line 2: a JSON object is needed.*not list"):
        list(read_rows(tmp_path / "b.jsonl"))
    (tmp_path / "c.parquet").write_bytes(b"text\nTom has a dog\n")
    with pytest.raises(PromptError, match=r"c\.parquet is not a readable parquet file: .*[^.]\.$"):
        list(read_rows(tmp_path / "c.parquet"))
    for name in ("d.yaml", "d.parquet.gz", "d"):
        (tmp_path / name).touch()
        with pytest.raises(
            PromptError,
            match=r"allowed: \.jsonl, \.jsonl\.gz, \.ndjson, \.ndjson\.gz, \.json, \.json\.gz, \.csv",
        ):
            read_rows(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2: nested too deep to be read; write it shorter"),
        ('{"text": "a", "n": ' + "7" * 5_000 + "}", "line 2: a number of too many digits to be read; write it shorter"),
        ('{"text": "a", "answer": "b", "text": "c"}', "line 2: 'text' is given twice; keep one"),
        ('{"text": "a", "labels": {"hops": 1, "hops": 2}}', "line 2: 'hops' is given twice; keep one"),
    ],
    ids=["deep", "digits", "twice", "label-twice"],
)
def test_lines_that_no_reader_takes_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(PromptError, match=rf"rows\.jsonl, {message}"):
        list(read_rows(path))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_one_name_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    names = ["question", "", "question", "answer", ""]
    if kind == "csv":
        path.write_text(f"{','.join(names)}\nA,1,B,C,2\n")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array(["A"])] * 5, names=names), path)
    with pytest.raises(
        PromptError, match=rf"rows\.{kind} has 2 columns named 'question'; keep one, or rename the others"
    ):
        list(read_rows(path))


def test_rows_with_more_values_than_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('question,answer\n"A, or B",C\nA, or B,C\n')
    rows = read_rows(path)
    assert next(rows) == {"question": "A, or B", "answer": "C"}
    with pytest.raises(PromptError, match=r"rows\.csv, line 3: more values than the 2 columns; .* in double quotes"):
        next(rows)


def _fifo(place: Path) -> Path:
    os.mkfifo(place)
    return place


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_nobody_is_waited_for(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.csv", "a.jsonl.gz", "a.parquet"):
        with pytest.raises(PromptError, match=rf"{name} cannot be read: it is a FIFO, and only regular files are read"):
            list(read_rows(_fifo(tmp_path / name)))
    with pytest.raises(PromptError, match=r"a\.txt cannot be read: it is a FIFO"), open_text(_fifo(tmp_path / "a.txt")):
        pass
    with pytest.raises(PromptError, match="it is a device, and only regular files are read"), open_text("/dev/zero"):
        pass


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no names of what is open here")
def test_what_the_user_has_opened_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"of a command")
    os.close(writing)
    try:
        with open_text(f"/dev/fd/{reading}") as file:
            assert file.read() == "of a command"
    finally:
        os.close(reading)


def test_a_folder_of_texts_is_read_inside_itself(tmp_path: Path) -> None:
    folder, secret = tmp_path / "texts", tmp_path / "secret.txt"
    folder.mkdir()
    secret.write_text("a b c d e f g h")
    (folder / "a.txt").symlink_to(secret)
    tokenizer = letter_tokenizer(16)
    with pytest.raises(PromptError, match=r"a\.txt cannot be read: it is a link that leaves '.*texts'") as refused:
        corpus_prompts(f"{folder}/", tokenizer=tokenizer, window=4)
    assert "secret" not in str(refused.value)
    # a link inside of the folder, and one that the user gives by its name
    (folder / "a.txt").unlink()
    (folder / "b.txt").write_text("a b c d")
    (folder / "c.txt").symlink_to("b.txt")
    prompts = corpus_prompts(f"{folder}/", tokenizer=tokenizer, window=4)
    assert {prompt.labels["document"] for prompt in prompts} == {"b", "c"}
    (tmp_path / "link.txt").symlink_to(secret)
    assert corpus_prompts(str(tmp_path / "link.txt"), tokenizer=tokenizer, window=4)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not tell holes")
@pytest.mark.parametrize("name", ["h.jsonl", "h.json", "h.csv", "h.tsv", "h.txt", "h.parquet"])
def test_a_large_file_of_holes_is_not_read(name: str, tmp_path: Path) -> None:
    """It takes no room on the disk, and its first line would take all of the memory."""
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 33)
    opened = open_text(tmp_path / name) if name.endswith("txt") else None
    with pytest.raises(PromptError, match=r"it says that it has 8\.0 GiB, nearly none of which was ever written"):
        next(iter(read_rows(tmp_path / name))) if opened is None else opened.__enter__()


def test_a_time_zone_that_nobody_knows_is_a_fault_of_the_file(tmp_path: Path) -> None:
    times = pyarrow.array([0], pyarrow.timestamp("ns", "nowhere\x1b[31m"))
    pyarrow.parquet.write_table(pyarrow.table({"when": times}), tmp_path / "t.parquet")
    with pytest.raises(PromptError, match=r"t\.parquet is not a readable parquet file: .*nowhere") as error:
        list(read_rows(tmp_path / "t.parquet"))
    assert "\x1b" not in str(error.value)


def test_a_table_of_thousands_of_columns_is_refused(tmp_path: Path) -> None:
    """Its reader takes as long for each column as for a thousand values."""
    for columns in (4096, 4097):
        table = pyarrow.table({f"c{number}": ["a"] for number in range(columns)})
        pyarrow.parquet.write_table(table, tmp_path / f"{columns}.parquet")
    assert len(next(iter(read_rows(tmp_path / "4096.parquet")))) == 4096
    with pytest.raises(PromptError, match=r"has 4,097 columns, and at most 4,096 are read\. Write those that prompts"):
        next(iter(read_rows(tmp_path / "4097.parquet")))
