"""Turns of a chat as a tokenizer's template writes them, compared with the texts that went in.

A template is a program that comes with the model. It may take contents as texts or as lists of parts, cut thinking
out of them, and write the day's date, and it says nothing where it loses a text. So it is asked twice: with markers in
the place of the texts, which tells where each text stands, and with the texts themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.core.deadline import deadline
from bathyscope.core.text import elided
from bathyscope.errors import PromptError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPLATE_DATE: Final = datetime(2024, 7, 26)
"""What a template that writes the day's date is told: the same every day, so that a run can be resumed."""
QUESTION: Final = "PlaceOfTheQuestion"
ANSWER: Final = "PlaceOfTheAnswer"
USER: Final = "user"
ASSISTANT: Final = "assistant"

_SECONDS: Final = 10.0
"""That a template may take for one chat, which takes milliseconds."""
_CLOCK: Final = "strftime_now"
"""The function by which templates ask for the date."""
_DIRECTIVES: Final = {
    **{"a": "Fri", "A": "Friday", "b": "Jul", "h": "Jul", "B": "July", "p": "AM", "P": "am"},
    **{"c": "Fri Jul 26 00:00:00 2024", "x": "07/26/24", "D": "07/26/24", "F": "2024-07-26"},
    **{"X": "00:00:00", "T": "00:00:00", "r": "12:00:00 AM", "R": "00:00"},
    **{"Y": "2024", "G": "2024", "C": "20", "y": "24", "g": "24", "m": "07", "d": "26", "e": "26", "j": "208"},
    **{"u": "5", "w": "5", "U": "29", "V": "30", "W": "30"},
    **{"H": "00", "k": " 0", "I": "12", "l": "12", "M": "00", "S": "00", "f": "000000"},
    # seconds since 1970 by UTC; a day without a zone has none to name
    **{"s": "1721952000", "z": "", "Z": "", "n": "\n", "t": "\t"},
}
"""What each letter behind % writes of ``TEMPLATE_DATE``: the same in every locale, time zone and C library."""
_PERCENT: Final = "\ue000"
"""Stands for a written-out % (%%) while letters are replaced."""
_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*$")
_OPEN_THINKING = re.compile(r"<think>\s*$")
_THINKING_TWICE = re.compile(r"<think>\s*(?:</think>\s*)?<think>")
_Messages = list[dict[str, Any]]


class Turns(NamedTuple):
    """A question and its answer as turns of a chat.

    Args:
        question: everything before the answer.
        answer: None where the assistant's turn is only begun.
        remarks: what a reader should know of the rendering, without the prompt's name.
    """

    question: str
    answer: str | None
    remarks: tuple[str, ...] = ()


class Frame(NamedTuple):
    """What a template writes around texts.

    Args:
        text: the rendering of the markers ``QUESTION`` and ``ANSWER``.
        as_parts: roles whose contents it takes as lists of parts.
    """

    text: str
    as_parts: frozenset[str]


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer."""

    tokenizer: PreTrainedTokenizerBase

    @property
    def writes_date(self) -> bool:
        """Whether the template asks for the day's date."""
        return _CLOCK in str(self.tokenizer.chat_template)

    @cached_property
    def _dated(self) -> dict[str, str]:
        """The template behind a macro that takes the place of its clock; empty where it asks for no date."""
        if not self.writes_date:
            return {}
        return {"chat_template": _clock_macro() + self.tokenizer.get_chat_template()}

    def cause_of_two(self, mark: str, is_answered: bool, rendered: str) -> str:
        """Return why a chat begins with a mark twice: the template, the prompt's text, or the tokenizer."""
        frame = self._answered if is_answered else self._open
        if _begins_with_two(frame.text, mark):
            return f"the chat template writes {mark} twice at its beginning, and it is taken once; mend the template"
        if _begins_with_two(rendered, mark):
            return f"the text brings {mark} behind that of the chat template, and it is taken once; remove it"
        return (
            f"the chat template writes {mark}, and the tokenizer puts it before every text even with "
            "add_special_tokens=False; it is taken once"
        )

    def write(self, question: str, answer: str | None) -> Turns:
        """Write a question as the user's turn and its answer as the assistant's, without what follows the answer.

        Raises:
            PromptError: there is no template, it refuses the turns, or a text is not found in what it writes.
        """
        question = question.strip()
        frame = self._open if answer is None else self._answered
        # A marker stands for the answer: what stands before it is the question's.
        contents = {USER: question} if answer is None else {USER: question, ASSISTANT: ANSWER}
        rendered = self._render(contents, frame.as_parts)
        self._require_text(question, rendered, frame)
        if answer is None:
            return Turns(rendered, None, _remarks_of(frame.text, question, is_open=True))
        before, _, _ = rendered.rpartition(ANSWER)
        frame_before, _, _ = frame.text.rpartition(ANSWER)
        if _writes(ANSWER, frame_before):
            raise PromptError(
                "the chat template writes the answer twice, so that it would be read before it is asked for."
            )
        answer = answer.strip()
        without_thinking = before
        if answer.startswith("<think>"):
            without_thinking = _OPEN_THINKING.sub("", _EMPTY_THINKING.sub("", before))
        if without_thinking != before:
            remarks: tuple[str, ...] = ("the answer brings its own <think>, so that of the chat template is left out",)
        else:
            remarks = _remarks_of(frame_before + answer, question, is_open=False)
        with_answer = self._render({**contents, ASSISTANT: answer}, frame.as_parts)
        if not _words(with_answer).startswith(_words(without_thinking + answer)):
            remarks += ("the chat template would change the answer, which is measured as it was given",)
        return Turns(without_thinking, answer, remarks)

    @cached_property
    def _open(self) -> Frame:
        return self._frame({USER: QUESTION})

    @cached_property
    def _answered(self) -> Frame:
        return self._frame({USER: QUESTION, ASSISTANT: ANSWER})

    def _frame(self, markers: dict[str, str]) -> Frame:
        """Find the form of contents in which the template writes every marker: texts, or lists of parts."""
        forms = [frozenset[str](), frozenset(markers)]
        refusal: PromptError | None = None
        frames: list[Frame] = []
        while forms:
            as_parts = forms.pop(0)
            try:
                rendered = self._render(markers, as_parts)
            except PromptError as error:
                refusal = refusal or error
                continue
            frame = Frame(rendered, as_parts)
            lost = frozenset(role for role, marker in markers.items() if not _writes(marker, rendered))
            if not lost:
                return frame
            frames.append(frame)
            # some templates take one role's contents as parts and the other's as text
            if not as_parts and lost != frozenset(markers):
                forms.insert(0, lost)
        if not frames:
            raise refusal or PromptError("the chat template writes nothing; leave chat out.")
        if any(_writes(QUESTION, frame.text) for frame in frames):
            raise PromptError("the chat template leaves out the assistant's turn, which the answer would be.")
        raise _lost("the user's text", frames[0].text)

    def _require_text(self, question: str, rendered: str, frame: Frame) -> None:
        """Refuse a rendering without the question's whole text; white space may differ."""
        expected = frame.text.replace(QUESTION, question)
        if _words(rendered) == _words(expected):
            return
        # What the template writes around a text may depend on it, but the text itself must be there.
        before = frame.text.partition(QUESTION)[0]
        if _words(question) not in _words(rendered.removeprefix(before)):
            raise _lost(f"the user's text {elided(repr(question), 40)}", rendered.replace(ANSWER, "…"))

    def _render(self, contents: dict[str, str], as_parts: frozenset[str]) -> str:
        """The chat as text; after the user's turn alone with whatever begins the assistant's."""
        if not self.tokenizer.chat_template:
            raise PromptError(
                f"chat=True, and {type(self.tokenizer).__name__} has no chat template; leave it out, or give the "
                "tokenizer of a model that was trained on chats (load(model, tokenizer=…))."
            )
        messages: _Messages = [
            {"role": role, "content": [{"type": "text", "text": text}] if role in as_parts else text}
            for role, text in contents.items()
        ]
        template_values: dict[str, Any] = dict(self._dated)
        try:
            with deadline(_SECONDS):
                rendered = self.tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=ASSISTANT not in contents,
                    **template_values,
                )
            return str(rendered)
        except TimeoutError as error:
            raise PromptError(
                f"the tokenizer's chat template did not end within {_SECONDS:g} s; leave chat out."
            ) from error
        # a template is a program of its author's, which raises whatever it likes
        except Exception as error:
            reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
            raise PromptError(f"the tokenizer's chat template does not take it: {reason}.") from error


def _clock_macro() -> str:
    """A macro of the name by which templates ask for the date; it writes ``TEMPLATE_DATE``.

    A function cannot be given to a template in its place: transformers lets plain values through alone.
    """
    flags: dict[str, Callable[[str], str]] = {
        "": str,
        "E": str,
        "O": str,
        "-": _without_filling,
        "_": lambda text: _without_filling(text).rjust(len(text)),
        "0": lambda text: text.replace(" ", "0") if text.strip().isdigit() else text,
        "^": str.upper,
        "#": lambda text: text.lower() if text.isupper() else text.upper(),
    }
    marks = {f"%{flag}{letter}": of(text) for flag, of in flags.items() for letter, text in _DIRECTIVES.items()}
    replacements = [("%%", _PERCENT), *marks.items(), (_PERCENT, "%")]
    listed = ", ".join(f"({_quoted(mark)}, {_quoted(text)})" for mark, text in replacements)
    # a loop, since some hundred filters behind each other are nested too deeply; templates are read with trim_blocks,
    # which takes this line's end away
    return (
        f"{{% macro {_CLOCK}(format) %}}{{% set date = namespace(text=format) %}}{{% for mark, text in [{listed}] %}}"
        "{% set date.text = date.text | replace(mark, text) %}{% endfor %}{{ date.text }}{% endmacro %}\n"
    )


def _without_filling(text: str) -> str:
    """Return a number without the zeros and blanks in front of it; other texts as they are."""
    return (text.strip().lstrip("0") or "0") if text.strip().isdigit() and len(text) < len("000000") else text


def _quoted(text: str) -> str:
    """Return a text as a literal of a template."""
    return "'" + text.replace("\n", "\\n").replace("\t", "\\t") + "'"


def _writes(marker: str, rendered: str) -> bool:
    """Say whether a marker was written as text, and not inside of the list of parts that it came in."""
    quoted = re.compile(rf"['\"]text['\"]:\s*['\"]{marker}")
    return marker in quoted.sub("", rendered)


def _begins_with_two(text: str, mark: str) -> bool:
    once = text.lstrip().removeprefix(mark)
    return once != text.lstrip() and once.lstrip().startswith(mark)


def _words(text: str) -> str:
    """A text with each run of white space as one blank."""
    return " ".join(text.split())


def _lost(what: str, rendered: str) -> PromptError:
    return PromptError(
        f"the chat template does not write {what}: it gives {elided(repr(rendered), 60)}. Leave chat out, or give a "
        "tokenizer with another template (load(model, tokenizer=…))."
    )


def _remarks_of(frame: str, question: str, *, is_open: bool) -> tuple[str, ...]:
    """What is wrong with a rendering that is complete: blocks of thinking that are doubled or cut, a text twice.

    Args:
        frame: the rendering without the question, which may speak of ``<think>`` itself.
    """
    remarks = []
    if frame.count(QUESTION) > 1:
        remarks.append("the chat template writes the user's text more than once")
    if _THINKING_TWICE.search(frame):
        remarks.append("the chat begins <think> twice")
    unclosed = frame.count("<think>") - frame.count("</think>")
    # a template may begin the thinking of an assistant that has not answered
    allowed = (0, 1) if is_open and _OPEN_THINKING.search(frame) else (0,)
    if unclosed not in allowed:
        remarks.append("the chat has a <think> without its </think>, or the reverse")
    return tuple(remarks)
