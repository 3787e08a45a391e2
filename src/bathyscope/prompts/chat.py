"""Turns of a chat as a tokenizer's template writes them, compared with the texts that went in.

A template is a program that comes with the model. It may take contents as texts or as lists of parts, cut thinking
out of them, and write the day's date, and it says nothing where it loses a text. So it is asked twice: with markers in
the place of the texts, which tells where each text stands, and with the texts themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.core.deadline import deadline
from bathyscope.core.headroom import headroom
from bathyscope.core.text import elided, in_bytes
from bathyscope.errors import PromptError
from bathyscope.prompts.template_sandbox import MARK, bounded_templates

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
_MEMORY: Final = 1 << 30
"""Bytes that it may take, as much as a thousand of the longest chats."""
_CLOCK: Final = "strftime_now"
"""The function by which templates ask for the date."""
_DIRECTIVES: Final = "aAbBdHIjmMpSUwWyYcxXfFDTR%"
"""What may follow % in the format of a date; %% comes last."""
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
    def _template(self) -> str:
        """The template as it is read: bounded, and behind a macro that takes the place of its clock, if it asks it."""
        return MARK + (_clock_macro() if self.writes_date else "") + self.tokenizer.get_chat_template()

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
            remarks = ("the answer brings its own <think>, so that of the chat template is left out",)
            return Turns(without_thinking, answer, remarks)
        return Turns(before, answer, _remarks_of(frame_before + answer, question, is_open=False))

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
        try:
            with headroom(_MEMORY), bounded_templates(), deadline(_SECONDS):
                rendered = self.tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=ASSISTANT not in contents,
                    chat_template=self._template,
                )
            return str(rendered)
        except TimeoutError as error:
            raise PromptError(
                f"the tokenizer's chat template did not end within {_SECONDS:g} s; leave chat out."
            ) from error
        except MemoryError as error:
            raise PromptError(
                f"the tokenizer's chat template asks for more than {in_bytes(_MEMORY)} of memory; leave chat out."
            ) from error
        # a template is a program of its author's, which raises whatever it likes
        except Exception as error:
            reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
            raise PromptError(f"the tokenizer's chat template does not take it: {reason}.") from error


def _clock_macro() -> str:
    """A macro of the name by which templates ask for the date; it writes ``TEMPLATE_DATE``.

    A function cannot be given to a template in its place: transformers lets plain values through alone.
    """
    # the variants without leading zeros first: %-d holds %
    directives = [f"%{sign}{letter}" for sign in ("-", "") for letter in _DIRECTIVES]
    replaced = "".join(f" | replace('{mark}', '{TEMPLATE_DATE.strftime(mark)}')" for mark in directives)
    # templates are read with trim_blocks, which takes this line's end away
    return f"{{% macro {_CLOCK}(format) %}}{{{{ format{replaced} }}}}{{% endmacro %}}\n"


def _writes(marker: str, rendered: str) -> bool:
    """Say whether a marker was written as text, and not inside of the list of parts that it came in."""
    quoted = re.compile(rf"['\"]text['\"]:\s*['\"]{marker}")
    return marker in quoted.sub("", rendered)


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
