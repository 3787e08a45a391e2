"""How many of a text's last tokens are its answer, found by character offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bathyscope.errors import PromptError


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
        question: the text before the answer.
        answer: the rest of the text; not blank.
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
