"""What is said of a complete rendering of a chat: thinking that is doubled or cut, texts that are written twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*$")
_OPEN_THINKING = re.compile(r"<think>\s*$")
_THINKING_TWICE = re.compile(r"<think>\s*(?:</think>\s*)?<think>")


def remarks_of(frame: str, markers: Sequence[str], *, is_open: bool) -> tuple[str, ...]:
    """Return what is wrong with a rendering that is complete.

    Args:
        frame: the rendering without the texts of the question, which may speak of ``<think>`` themselves.
        markers: of these texts, in order.
        is_open: the assistant's turn is only begun.
    """
    remarks = []
    if any(frame.count(marker) > 1 for marker in markers):
        remarks.append("the chat template writes the user's text more than once")
    if _THINKING_TWICE.search(frame):
        remarks.append("the chat begins <think> twice")
    unclosed = frame.count("<think>") - frame.count("</think>")
    # a template may begin the thinking of an assistant that has not answered
    allowed = (0, 1) if is_open and _OPEN_THINKING.search(frame) else (0,)
    if unclosed not in allowed:
        remarks.append("the chat has a <think> without its </think>, or the reverse")
    return tuple(remarks)


def without_own_thinking(before: str, answer: str) -> str:
    """Return what is before an answer that brings its own thinking, without the template's."""
    return _OPEN_THINKING.sub("", _EMPTY_THINKING.sub("", before)) if answer.startswith("<think>") else before


def begins_with_two(text: str, mark: str) -> bool:
    """Whether a text begins with a mark twice."""
    once = text.lstrip().removeprefix(mark)
    return once != text.lstrip() and once.lstrip().startswith(mark)
