from __future__ import annotations

import re

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.tokenize import Span, answer_token_count


def spans(*pieces: str) -> list[Span]:
    """The spans of a text's pieces, told by hand."""
    ends = [len("".join(pieces[: n + 1])) for n in range(len(pieces))]
    return [Span(end - len(piece), end) for piece, end in zip(pieces, ends)]


@pytest.mark.parametrize(
    ("question", "answer", "pieces", "expected"),
    [
        # the space at the seam belongs to the answer's first token, on whichever side it was written
        ("1 + 2 = ", "3", ("1", " +", " 2", " =", " 3"), 1),
        ("1 + 2 =", " 3", ("1", " +", " 2", " =", " 3"), 1),
        ("is", " Yoko Ono", ("is", " Y", "oko", " Ono"), 3),
        # a space of its own: the question's where the question ends in it, else the answer's
        ("1 = ", "28", ("1", " =", " ", "2", "8"), 2),
        ("1 =", " 28", ("1", " =", " ", "2", "8"), 3),
        # a token of the question that takes the answer's leading space along
        ("what? ", " 28", ("what", "?  ", "28"), 1),
        ("what?", "\n\n28", ("what", "?\n", "\n", "28"), 2),
        # no space at all
        ("after", ", she sits.", ("after", ",", " she", " sits", "."), 4),
        # trailing space is the answer's
        ("a", " b ", ("a", " b", " "), 2),
    ],
)
def test_count(question: str, answer: str, pieces: tuple[str, ...], expected: int) -> None:
    assert "".join(pieces) == question + answer
    assert answer_token_count(question, answer, spans(*pieces)) == expected


def test_spans_without_their_leading_space() -> None:
    # byte-level tokenizers trim: " 3" covers the 3 only, a lone space nothing
    assert answer_token_count("1 = ", "3", [Span(0, 1), Span(2, 3), Span(4, 5)]) == 1
    assert answer_token_count("1 =", " 3", [Span(0, 1), Span(2, 3), Span(4, 5)]) == 1
    assert answer_token_count("1 =", " 3", [Span(0, 1), Span(2, 3), Span(4, 4), Span(4, 5)]) == 2
    assert answer_token_count("1 = ", "3", [Span(0, 1), Span(2, 3), Span(4, 4), Span(4, 5)]) == 1


def test_several_tokens_of_one_character() -> None:
    assert answer_token_count("a ", "🦆", [Span(0, 1), Span(1, 3), Span(2, 3), Span(2, 3)]) == 3


def test_shared_token() -> None:
    message = re.escape("question and answer share the token '23', so the answer '34' cannot be measured apart")
    with pytest.raises(PromptError, match=message):
        answer_token_count("12", "34", spans("1", "23", "4"))
    with pytest.raises(PromptError, match=re.escape("share the token ' =2'")):
        answer_token_count("1 =", "2", spans("1", " =2"))


@pytest.mark.parametrize("covered", [[], [Span(0, 1), Span(2, 2), Span(4, 4)]])
def test_offsets_that_do_not_cover_the_text(covered: list[Span]) -> None:
    with pytest.raises(PromptError, match=r"offsets do not cover the text.*answer_tokens= instead"):
        answer_token_count("1 = ", "3", covered)
