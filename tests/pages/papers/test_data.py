from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.pages.papers.data import local_data, localised


def test_a_folder_of_data_sets(tmp_path: Path) -> None:
    (tmp_path / "hellaswag.jsonl").touch()
    for folder, files in {"gsm8k": ("test_600.jsonl", "train.jsonl"), "mquake": ("cf3k.jsonl",), "wic": ("a",)}.items():
        (tmp_path / folder).mkdir()
        for file in files:
            (tmp_path / folder / file).touch()
    assert local_data([str(tmp_path)]) == {
        "gsm8k": str(tmp_path / "gsm8k" / "test_600.jsonl"),
        "hellaswag": str(tmp_path / "hellaswag.jsonl"),
        "mquake": str(tmp_path / "mquake" / "cf3k.jsonl"),
    }


def test_files_by_name_come_last_and_win(tmp_path: Path) -> None:
    (tmp_path / "gsm8k.csv").touch()
    own = tmp_path / "own.parquet"
    own.touch()
    assert local_data([str(tmp_path), f"gsm8k={own}"]) == {"gsm8k": str(own)}


def test_several_files_that_could_be_meant(tmp_path: Path) -> None:
    for name in ("gsm8k.csv", "gsm8k.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(PromptError, match=r"gsm8k could be any of .*jsonl, .*csv; say which: --data gsm8k="):
        local_data([str(tmp_path)])


def test_a_text_stands_for_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "pile.txt.gz").touch()
    book = tmp_path / "book.txt"
    book.touch()
    assert local_data([str(tmp_path)]) == {"pile": str(tmp_path / "pile.txt.gz")}
    data = local_data([f"pile={book}"])
    assert str(localised("pile.txt:2000?window=512", data, 3)) == f"{book}:3?window=512"
    assert str(localised("pile.txt:2000?window=512", {})) == "pile.txt:2000?window=512"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gsm9k=a.jsonl", "--data: 'gsm9k' is not a data set. Did you mean 'gsm8k'? Allowed: aime2024,"),
        ("gsm8k=/nowhere/a.jsonl", "--data gsm8k='/nowhere/a.jsonl': file not found."),
        ("pile=a.jsonl", "--data pile=a.jsonl: pile is plain text; give a file ending in .txt, .txt.gz."),
        ("/nowhere", "--data '/nowhere' is not a folder. Give a folder, or NAME=FILE such as gsm8k=test.jsonl."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PromptError) as caught:
        local_data([text])
    assert message in str(caught.value)


def test_two_files_of_one_name_are_refused_and_a_file_stands_in_for_a_folders(tmp_path: Path) -> None:
    first, second = tmp_path / "gsm8k.jsonl", tmp_path / "other.jsonl"
    for file in (first, second):
        file.write_text("{}")
    assert local_data([str(tmp_path), f"gsm8k={second}"])["gsm8k"] == str(second)
    with pytest.raises(PromptError, match="--data gives 'gsm8k' more than one file; give each name one"):
        local_data([f"gsm8k={first}", f"gsm8k={second}"])


@pytest.mark.parametrize(
    ("source", "count", "expected"),
    [
        ("gsm8k:10", None, "gsm8k:10@here.jsonl"),
        ("gsm8k:10", 3, "gsm8k:3@here.jsonl"),
        ("mquake?hops=2-4&per_level=20", 2, "mquake?hops=2-4&per_level=2"),
        ("addition:1?digits=6", None, "addition:1?digits=6"),
    ],
)
def test_a_source_reads_the_local_file(source: str, count: int | None, expected: str) -> None:
    assert str(localised(source, {"gsm8k": "here.jsonl"}, count)) == expected
