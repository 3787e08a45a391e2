"""Where the answer of a text begins: its tokens, and the place where question and answer meet."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from bathyscope.errors import PromptError

_UNSPACED_SCRIPTS: Final = (
    *("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "BALINESE", "JAVANESE", "TAI", "YI"),
)
"""First words of the Unicode names of letters that are written without spaces between words."""
_LETTER_CATEGORIES: Final = "LMN"
"""Letters, the marks on them, and numbers."""


class AnswerError(PromptError):
    """An answer's tokens cannot be told from the question's; the text itself can be measured."""


class Span(NamedTuple):
    """Characters ``start`` (included) to ``end`` (excluded) of the text that one token covers."""

    start: int
    end: int


def answer_token_count(question: str, answer: str, spans: Sequence[Span]) -> int:
    """Count the tokens of ``answer`` at the end of ``question + answer``, tokenised once as a whole.

    Tokenising the two apart and adding up would miscount wherever a token reaches over the seam. White space
    at the seam does not count: a token ``" 28"`` after a question that ends in a space is the answer's.
    Source: csordas2025, erasure and depth score.

    Args:
        spans: the characters that each token covers, in order, without special tokens.

    Raises:
        AnswerError: a token holds letters of both, or the spans do not reach the end of the text.
    """
    text = question + answer
    if not spans or spans[-1].end < len(text.rstrip()):
        raise AnswerError(
            "the tokenizer's character offsets do not cover the text, so the answer's tokens cannot be "
            "found; give ids= with answer_tokens= instead."
        )
    # A token may begin with the blank before the answer (" 28"): it is the answer's, wherever the seam was put.
    question_end = len(question.rstrip())
    answer_start = len(question) + len(answer) - len(answer.lstrip())
    for span in spans:
        if span.start < question_end and span.end > answer_start:
            raise AnswerError(
                f"question and answer share the token {text[span.start : span.end]!r}, so the answer "
                f"{answer!r} cannot be measured apart; move the seam to white space or punctuation, "
                "or give ids= with answer_tokens=."
            )
    return sum(span.end > len(question) and span.start >= question_end for span in spans)


def makes_one_word(question: str, answer: str) -> bool:
    """Return whether the answer continues the question's last word, as ``girl`` after ``a little`` does.

    A letter or a number must meet a letter or a number. Two digits are no such place, since a number may be continued
    on purpose; nor are letters of scripts that put no spaces between words, such as Chinese and Thai.
    """
    if not question or not answer:
        return False
    last, first = question[-1], answer[0]
    if not all(unicodedata.category(letter)[0] in _LETTER_CATEGORIES for letter in (last, first)):
        return False
    if last.isdigit() and first.isdigit():
        return False
    return not any(unicodedata.name(letter, "").startswith(_UNSPACED_SCRIPTS) for letter in (last, first))


def doubles_blank(question: str, answer: str) -> bool:
    """Return whether two blanks or more stand where the answer meets the question, on one line.

    Tokenisers write one blank as part of the next word, and two as a token of their own, which no text has there.
    Behind a line break blanks are an indentation.
    """
    blanks = question[len(question.rstrip()) :] + answer[: len(answer) - len(answer.lstrip())]
    return len(blanks) > 1 and len(blanks.splitlines()) == 1 and blanks == blanks.rstrip("\n\r")
