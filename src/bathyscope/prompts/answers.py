"""Where the answer of a text begins: its tokens, and the place where question and answer meet."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from bathyscope.core.text import elided
from bathyscope.errors import PromptError

_UNSPACED_SCRIPTS: Final = (
    *("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "BALINESE", "JAVANESE", "TAI", "YI"),
)
"""First words of the Unicode names of letters that are written without spaces between words."""
_LETTER_CATEGORIES: Final = "LMN"
"""Letters, the marks on them, and numbers."""
_ANSWER_FOLLOWS: Final = "?:\u061f"
"""Signs (with wide ones folded into them) behind which an answer is still to come."""
_IN_A_NUMBER: Final = re.compile(r"\d[.,]?$")
"""End of a text that a digit continues."""


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


def question_of(text: str, answer: str) -> str:
    """Return what is before the answer at the end of a text; the whole text where the answer follows it.

    Raises:
        AnswerError: the text ends in the answer but for blanks, punctuation or capitals, so that nobody can tell
            whether the answer is to be put behind it once more.
    """
    if text.endswith(answer):
        return text.removesuffix(answer)
    if ends_nearly_in(text, answer):
        raise AnswerError(
            f"its text ends in {elided(repr(text[-30:]), 40)}, which may be its answer {elided(repr(answer), 30)} "
            "already. End the text in exactly that answer, or, if the answer comes once more, write it behind the text."
        )
    return text


def ends_nearly_in(text: str, answer: str) -> bool:
    """Whether a text ends in an answer, as whole words, up to blanks, capitals and final punctuation.

    Behind a question mark or a colon (``yes or no?``) the answer is still to come.
    """
    folded, folded_answer = _folded(text), _folded(answer)
    bare, bare_answer = _without_final_signs(folded), _without_final_signs(folded_answer)
    if bare_answer:
        if any(sign in _ANSWER_FOLLOWS for sign in folded[len(bare) :]):
            return False
        folded, folded_answer = bare, bare_answer
    if not folded_answer or not folded.endswith(folded_answer):
        return False
    return not _is_cut(folded.removesuffix(folded_answer), folded_answer)


def _is_cut(before: str, answer: str) -> bool:
    """Whether an answer is the end of a longer word or number."""
    if makes_one_word(before, answer):
        return True
    return answer[0].isdigit() and bool(_IN_A_NUMBER.search(before))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _without_final_signs(text: str) -> str:
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]).startswith("P")):
        end -= 1
    return text[:end]


def doubles_blank(question: str, answer: str) -> bool:
    """Return whether two blanks or more are where the answer meets the question, on one line.

    Tokenisers write one blank as part of the next word, and two as a token of their own, which no text has there.
    Behind a line break blanks are an indentation.
    """
    blanks = question[len(question.rstrip()) :] + answer[: len(answer) - len(answer.lstrip())]
    return len(blanks) > 1 and len(blanks.splitlines()) == 1 and blanks == blanks.rstrip("\n\r")
