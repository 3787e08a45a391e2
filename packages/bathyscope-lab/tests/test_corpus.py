from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from bathyscope_lab.corpus import Sources, generated_documents, held_out_sources, pack, sample, training_sources
from bathyscope_lab.tokenizer import special_ids, train_bpe

from bathyscope.errors import OptionError, PromptError

TOKENIZER = train_bpe(["aaa bbb ccc"] * 9, 258)
BOS_ID, EOS_ID = special_ids(TOKENIZER)
MIX = {"books": 0.6, "gsm8k": 0.15, "generated": 0.25}


def repeated() -> Sources:
    """Each source writes one letter, in documents of a length of its own."""
    return {
        "books": lambda: itertools.repeat("a" * 40),
        "gsm8k": lambda: itertools.repeat("b" * 9),
        "generated": lambda: itertools.repeat("c"),
    }


def documents(stream: np.ndarray) -> list[list[int]]:
    starts = [*np.flatnonzero(stream == BOS_ID), len(stream)]
    return [stream[start:end].tolist() for start, end in itertools.pairwise(starts)]


def letters(ids: list[int]) -> str:
    return TOKENIZER.decode(ids, skip_special_tokens=True)


def test_stream_is_whole_documents_from_bos_to_eos() -> None:
    stream = pack(repeated(), MIX, TOKENIZER, 2000)
    assert stream.dtype == np.uint16
    assert stream[0] == BOS_ID
    for ids in documents(stream)[:-1]:
        assert ids[-1] == EOS_ID
        assert set(letters(ids)) in ({"a"}, {"b"}, {"c"})


def test_every_stretch_holds_the_mix() -> None:
    stream = pack(repeated(), {"books": 3, "gsm8k": 1, "generated": 1}, TOKENIZER, 5000)
    for stretch in np.split(stream, 10):
        share = {"a": 0, "b": 0, "c": 0}
        for ids in documents(stretch):
            share[letters(ids)[:1] or "c"] += len(ids)
        assert share["a"] / 500 == pytest.approx(0.6, abs=0.12)
        assert share["b"] / 500 == pytest.approx(0.2, abs=0.12)


def test_a_source_without_a_share_is_left_out_and_a_finite_one_ends_the_stream() -> None:
    finite: Sources = {"books": lambda: iter(["a", "aa"]), "gsm8k": lambda: iter(["b"])}
    stream = pack(finite, {"books": 1.0}, TOKENIZER, 1000)
    assert [letters(ids) for ids in documents(stream)] == ["a", "aa"]


def test_a_sample_is_shared_out_by_the_mix() -> None:
    texts = "".join(sample(repeated(), {"books": 3, "gsm8k": 1}, 8000))
    assert texts.count("a") == pytest.approx(6000, abs=40)
    assert texts.count("b") == pytest.approx(2000, abs=40)


def test_training_never_sees_what_is_held_out(data_root: Path) -> None:
    seen = training_sources(data_root, MIX, seed=0)
    held_out = held_out_sources(data_root, MIX)
    for name, count in (("books", 12), ("gsm8k", 120), ("generated", 2000)):
        training = set(itertools.islice(seen[name](), count * 3))
        unseen = set(itertools.islice(held_out[name](), count))
        assert unseen
        # Single sums of one digit are few, so that some stand in both.
        assert len(unseen & training) <= 0.02 * len(unseen)


def test_order_follows_the_seed(data_root: Path) -> None:
    def first(seed: int) -> list[str]:
        return list(itertools.islice(training_sources(data_root, MIX, seed)["gsm8k"](), 30))

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_books_are_cut_between_paragraphs_and_nothing_is_lost(data_root: Path) -> None:
    text = (data_root / "text" / "books_valid.txt").read_text(encoding="utf-8")
    pieces = list(held_out_sources(data_root, MIX)["books"]())
    assert "\n\n".join(pieces) == text
    assert max(map(len, pieces)) < 2200
    assert len(pieces) > 3


def test_questions_stand_in_both_formats(data_root: Path) -> None:
    paper, plain = itertools.islice(held_out_sources(data_root, MIX)["gsm8k"](), 2)
    assert paper.startswith("Given the following problem, reason and give a final answer to the problem.\nProblem: ")
    assert "<<noted>>" in paper
    assert plain.startswith("Problem: ")
    assert "<<" not in plain
    assert paper.split("The final answer is ")[-1] == plain.split("The final answer is ")[-1]


def test_generated_documents_hold_words_and_sums() -> None:
    texts = list(itertools.islice(generated_documents(7), 400))
    words = sum(text.startswith("Problem: ") and "?" in text for text in texts)
    singles = sum(text.count("Give the answer directly") == 6 for text in texts)
    assert words > 200
    assert singles > 4


@pytest.mark.parametrize("file", ["stories.txt", "stories.txt.gz"])
def test_a_text_file_keeps_every_twentieth_document_from_training(data_root: Path, file: str) -> None:
    held_out = list(held_out_sources(data_root, {file: 1.0})[file]())
    seen = list(itertools.islice(training_sources(data_root, {file: 1.0}, seed=0)[file](), 38))
    assert [text.split(".")[0] for text in held_out] == ["Story 0", "Story 20"]
    assert {text.split(".")[0] for text in seen} == {f"Story {n}" for n in range(40) if n not in (0, 20)}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"trains on text/books_valid.txt, but there is no .*; point --data at"):
        held_out_sources(tmp_path, MIX)["books"]()
    with pytest.raises(PromptError, match=r"but no data folder was given; point --data at the folder"):
        held_out_sources(None, MIX)["books"]()
    with pytest.raises(OptionError, match=r"'book' is no source; allowed: books, gsm8k, generated, or a text file"):
        held_out_sources(tmp_path, {"book": 1.0})


@pytest.mark.parametrize(
    ("source", "file", "held_out"),
    [
        ("books", "text/books_train.txt.gz", False),
        ("books", "text/books_valid.txt", True),
        ("gsm8k", "gsm8k/train.jsonl", False),
        ("gsm8k", "gsm8k/test_first600.jsonl", True),
    ],
)
@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, source: str, file: str, held_out: bool, content: str) -> None:
    """Endless documents of no document would keep training waiting for ever."""
    written(tmp_path / file, content.encode())
    sources = held_out_sources(tmp_path, MIX) if held_out else training_sources(tmp_path, MIX, seed=0)
    with pytest.raises(PromptError, match=rf"{file} holds no text; fill it, or leave its source out of the recipe"):
        sources[source]()


def test_an_empty_file_of_ones_own_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "mine.txt", b"")
    with pytest.raises(PromptError, match=r"mine.txt gives 0 documents .* at least 20 are needed"):
        training_sources(tmp_path, {"mine.txt": 1.0}, seed=0)["mine.txt"]()


GOOD = '{"question": "One and one?", "answer": "1 + 1 = 2 #### 2"}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'question': 1}", r"line 3: no JSON \(Expecting property name .*\); a line is .*; mend it or take it out"),
        ('{"question": "Why?"}', r"line 3: \{'question': 'Why\?'\} has no texts question and answer; a line is"),
        ('{"question": "Why?", "answer": 4}', "line 3: .* has no texts question and answer; a line is"),
        ("[1, 2]", r"line 3: \[1, 2\] has no texts question and answer"),
        ('{"question": "Why?", "answer": "4"}', "line 3: the answer holds #### 0 times; .* the number after ####"),
        ('{"question": "Why?", "answer": "#### 4 #### 5"}', "line 3: the answer holds #### 2 times"),
    ],
)
def test_a_line_of_questions_that_is_none_is_named(tmp_path: Path, line: str, message: str) -> None:
    written(tmp_path / "gsm8k" / "train.jsonl", f"{GOOD}\n\n{line}\n{GOOD}\n".encode())
    with pytest.raises(PromptError, match=rf"gsm8k/train.jsonl, {message}"):
        training_sources(tmp_path, MIX, seed=0)["gsm8k"]()


def test_blank_lines_and_unusual_line_separators_are_no_questions(tmp_path: Path) -> None:
    separated = GOOD.replace("One", "One\u2028")
    written(tmp_path / "gsm8k" / "test_first600.jsonl", f"{GOOD}\r\n\r\n{separated}\r\n".encode())
    documents = list(held_out_sources(tmp_path, MIX)["gsm8k"]())
    assert len(documents) == 4
    assert documents[3] == "Problem: One\u2028 and one?\nAnswer: 1 + 1 = 2\nThe final answer is 2"


def packed_in_part() -> bytes:
    return gzip.compress(random.Random(0).randbytes(5000).hex().encode(), mtime=0)[:3000]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.txt.gz",
            b"plain text",
            r" is no gzip file \(Not a gzipped file .*\); pack it with gzip, or name it without",
        ),
        ("a.txt.gz", packed_in_part(), r" is damaged \(Compressed file ended .*\); copy or pack it again"),
        ("a.txt.gz", gzip.compress(b"text", mtime=0)[:10] + b"\xff" * 30, r" is damaged \(.*\); copy or pack it again"),
        ("a.txt", b"one\ntwo\ncaf\xe9\n", r", line 3: not UTF-8 \(byte 0xe9\); save the file as UTF-8"),
        ("a.txt.gz", gzip.compress(b"one\ncaf\xe9\n", mtime=0), r", line 2: not UTF-8 \(byte 0xe9\)"),
    ],
    ids=["plain", "cut off", "garbled", "Latin-1", "packed Latin-1"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PromptError, match=rf"{name}{message}"):
        held_out_sources(tmp_path, {name: 1.0})[name]()


def written(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_a_file_too_short_to_hold_a_part_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("one\n\ntwo", encoding="utf-8")
    with pytest.raises(PromptError, match=r"short.txt gives 1 documents .* at least 20 are needed"):
        held_out_sources(tmp_path, {"short.txt": 1.0})["short.txt"]()
