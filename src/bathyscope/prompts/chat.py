"""Turns of a chat as a tokenizer's template writes them, compared with the texts that went in.

A template is a program that comes with the model. It may take contents as texts or as lists of parts, cut thinking
out of them, and write the day's date, and it says nothing where it loses a text. So it is asked twice: with markers in
the place of the texts, which tells where each text stands, and with the texts themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.core.text import elided
from bathyscope.errors import PromptError
from bathyscope.prompts.clock import ASKED, CLOCK, FIXED, UNASKED
from bathyscope.prompts.rendering import Rendering

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTION: Final = "PlaceOfTheQuestion"
ANSWER: Final = "PlaceOfTheAnswer"
USER: Final = "user"
ASSISTANT: Final = "assistant"

_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*$")
_OPEN_THINKING = re.compile(r"<think>\s*$")
_THINKING_TWICE = re.compile(r"<think>\s*(?:</think>\s*)?<think>")
_DRAWS: Final = re.compile(r"\|\s*random\b")
_DRAWINGS: Final = 16
_RARE: Final = "\ue000"
"""A letter that no template writes."""
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


@dataclass
class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        asks_clock: it has asked for the date in something that it wrote.
    """

    tokenizer: PreTrainedTokenizerBase
    asks_clock: bool = False

    @cached_property
    def _clocked(self) -> str | None:
        """The template's own text where it names the clock; of several templates that for chats without tools."""
        if CLOCK not in str(self.tokenizer.chat_template):
            return None
        template = str(self.tokenizer.get_chat_template())
        return template if CLOCK in template else None

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
        self._require_text(contents, rendered, frame)
        if answer is None:
            return Turns(rendered, None, _remarks_of(frame.text, question, is_open=True))
        before, _, _ = rendered.rpartition(ANSWER)
        frame_before, _, _ = frame.text.rpartition(ANSWER)
        if not _writes(QUESTION, frame_before):
            raise PromptError(
                "the chat template writes the answer before the question, so that it would be read without it."
            )
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
                self._require_steady(markers, frame)
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

    def _require_steady(self, markers: dict[str, str], frame: Frame) -> None:
        """Refuse a template that draws what it writes, so that no prompt would be the same twice."""
        if not _DRAWS.search(str(self.tokenizer.chat_template)):
            return
        if any(self._render(markers, frame.as_parts) != frame.text for _ in range(_DRAWINGS)):
            raise PromptError(
                "the chat template writes another text each time that it is asked (random), so that no prompt would be "
                "measured twice alike; take the random choice out of it."
            )

    def _require_text(self, contents: dict[str, str], rendered: str, frame: Frame) -> None:
        """Refuse a rendering without the question's whole text; white space may differ."""
        question = contents[USER]
        expected = frame.text.replace(QUESTION, question)
        if _words(rendered) == _words(expected):
            return
        # What the template writes around a text may depend on it, as on its length, but the text itself must be there:
        # as often as where another text of its form is written.
        stand_in = _stand_in(question)
        try:
            twin = self._render({**contents, USER: stand_in}, frame.as_parts)
        except PromptError:
            # it takes no such text
            twin = frame.text.replace(QUESTION, stand_in)
        written, rare, meant = (_words(each) for each in (twin, stand_in, question))
        if rare not in written or _words(rendered).count(meant) < written.replace(rare, meant).count(meant):
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
        # a template may name the clock and not ask it, as for a list of tools
        if not self.asks_clock:
            try:
                return self._applied(messages, UNASKED)
            except PromptError as error:
                if ASKED not in str(error):
                    raise
            self.asks_clock = True
        return self._applied(messages, FIXED)

    def _applied(self, messages: _Messages, clock: str) -> str:
        """Apply the template.

        Args:
            clock: the macro that takes the place of the clock.
        """
        template = str(self.tokenizer.get_chat_template()) if self._clocked is None else clock + self._clocked
        return self._rendering(messages, template, is_open=messages[-1]["role"] != ASSISTANT)

    @cached_property
    def _rendering(self) -> Rendering:
        return Rendering(self.tokenizer)


def _stand_in(text: str) -> str:
    """Return a text of the same form that stands in no template: its blanks, and one rare letter for all others."""
    return "".join(letter if letter.isspace() else _RARE for letter in text)


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
