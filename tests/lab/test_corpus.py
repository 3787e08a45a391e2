from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from bathyscope.errors import PromptError
from bathyscope.lab.corpus import Sources, generated_documents, held_out_sources, pack, training_sources
from bathyscope.lab.recipe import DataMix
from bathyscope.lab.tokenizer import special_ids, train_tokenizer

TOKENIZER = train_tokenizer(["aaa bbb ccc"], 300)
BOS_ID, EOS_ID = special_ids(TOKENIZER)


def repeated(letter: str) -> Sources:
    """Each source writes one letter, in documents of three different lengths."""
    return Sources(
        books=lambda: itertools.repeat("a" * 40),
        gsm8k=lambda: itertools.repeat("b" * 9),
        generated=lambda: itertools.repeat(letter),
    )


def documents(stream: np.ndarray) -> list[list[int]]:
    starts = [*np.flatnonzero(stream == BOS_ID), len(stream)]
    return [stream[start:end].tolist() for start, end in itertools.pairwise(starts)]


def test_stream_is_whole_documents_from_bos_to_eos() -> None:
    stream = pack(repeated("c"), DataMix(), TOKENIZER, 2000)
    assert stream.dtype == np.uint16
    assert stream[0] == BOS_ID
    for ids in documents(stream)[:-1]:
        assert ids[-1] == EOS_ID
        assert set(TOKENIZER.decode(ids)) in ({"a"}, {"b"}, {"c"})


def test_every_stretch_holds_the_mix() -> None:
    stream = pack(repeated("c"), DataMix(books=3, gsm8k=1, generated=1), TOKENIZER, 5000)
    for stretch in np.split(stream, 10):
        share = {"a": 0, "b": 0, "c": 0}
        for ids in documents(stretch):
            share[TOKENIZER.decode(ids)[:1] or "c"] += len(ids)
        assert share["a"] / 500 == pytest.approx(0.6, abs=0.12)
        assert share["b"] / 500 == pytest.approx(0.2, abs=0.12)


def test_a_source_without_a_share_is_left_out_and_a_finite_one_ends_the_stream() -> None:
    finite = Sources(books=lambda: iter(["a", "aa"]), gsm8k=lambda: iter([]), generated=lambda: iter([]))
    stream = pack(finite, DataMix(books=1, gsm8k=0, generated=0), TOKENIZER, 1000)
    assert [TOKENIZER.decode(ids) for ids in documents(stream)] == ["a", "aa"]


def test_training_never_sees_what_is_held_out(data_root: Path) -> None:
    seen = training_sources(data_root, seed=0)
    held_out = held_out_sources(data_root)
    for name, count in (("books", 12), ("gsm8k", 120), ("generated", 2000)):
        training = set(itertools.islice(getattr(seen, name)(), count * 3))
        unseen = set(itertools.islice(getattr(held_out, name)(), count))
        assert unseen
        # Single sums of one digit are few, so that some stand in both.
        assert len(unseen & training) <= 0.02 * len(unseen)


def test_order_follows_the_seed(data_root: Path) -> None:
    def first(seed: int) -> list[str]:
        return list(itertools.islice(training_sources(data_root, seed).gsm8k(), 30))

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_books_are_cut_between_paragraphs_and_nothing_is_lost(data_root: Path) -> None:
    text = (data_root / "text" / "books_valid.txt").read_text(encoding="utf-8")
    pieces = list(held_out_sources(data_root).books())
    assert "\n\n".join(pieces) == text
    assert max(map(len, pieces)) < 2200
    assert len(pieces) > 3


def test_questions_stand_in_both_formats(data_root: Path) -> None:
    paper, plain = itertools.islice(held_out_sources(data_root).gsm8k(), 2)
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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"No training text at .*books_valid.txt; point --data at the folder"):
        held_out_sources(tmp_path).books()
