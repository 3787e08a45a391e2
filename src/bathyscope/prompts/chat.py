"""Turns of a chat as a tokenizer's template writes them, compared with the texts that went in.

A template is a program that comes with the model. It may take contents as texts or as lists of parts, cut thinking
out of them, and write the day's date, and it says nothing where it loses a text. So it is asked twice: with markers in
the place of the texts, which tells where each text stands, and with the texts themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.core.text import as_words, elided
from bathyscope.errors import PromptError
from bathyscope.prompts.chat_frames import ANSWER, Frame, Shape, markers_of, place_texts, shape_of, writes
from bathyscope.prompts.chat_remarks import begins_with_two, remarks_of, without_own_thinking
from bathyscope.prompts.clock import ASKED, CLOCK, FIXED, UNASKED
from bathyscope.prompts.messages import ASSISTANT, USER, Message
from bathyscope.prompts.rendering import Rendering, require_options

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DRAWS: Final = re.compile(r"\|\s*random\b")
_DRAWINGS: Final = 16
_MOST_TURNS: Final = 2000
"""Of a chat; each is looked for in what the template writes."""
_RARE: Final = "\ue000"
"""A letter that no template writes."""
_END_OF_THINKING: Final = "</think>"


class Turns(NamedTuple):
    """A chat as the text that is measured.

    Args:
        question: everything before the answer.
        answer: None where the assistant's turn is only begun.
        remarks: what a reader should know of the rendering, without the prompt's name.
        frame: the rendering of the markers in the place of the texts.
    """

    question: str
    answer: str | None
    remarks: tuple[str, ...] = ()
    frame: str = ""


@dataclass
class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        options: of the template itself, such as ``{"enable_thinking": False}``.
        asks_clock: it has asked for the date in something that it wrote.
        chats: how many were written.
        begun: of these, how many end where the assistant's turn is begun.
    """

    tokenizer: PreTrainedTokenizerBase
    options: Mapping[str, Any] = field(default_factory=dict)
    asks_clock: bool = False
    chats: int = 0
    begun: int = 0
    _idle: list[str] | None = field(default=None, init=False, repr=False)
    _frames: dict[Shape, Frame] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _clocked(self) -> str | None:
        """The template's own text where it names the clock; of several templates that for chats without tools."""
        if CLOCK not in str(self.tokenizer.chat_template):
            return None
        template = str(self.tokenizer.get_chat_template())
        return template if CLOCK in template else None

    @property
    def idle_options(self) -> tuple[str, ...]:
        """The options that have changed nothing in any chat that was written."""
        return tuple(self._idle or ())

    def cause_of_two(self, mark: str, turns: Turns) -> str:
        """Return why a chat begins with a mark twice: the template, the prompt's text, or the tokenizer."""
        if begins_with_two(turns.frame, mark):
            return f"the chat template writes {mark} twice at its beginning, and it is taken once; mend the template"
        if begins_with_two(turns.question, mark):
            return f"the text brings {mark} behind that of the chat template, and it is taken once; remove it"
        return (
            f"the chat template writes {mark}, and the tokenizer puts it before every text even with "
            "add_special_tokens=False; it is taken once"
        )

    def write(self, question: str, answer: str | None) -> Turns:
        """Write a question as the user's turn and its answer as the assistant's (see ``write_chat``)."""
        answered = [] if answer is None else [Message(ASSISTANT, (answer,))]
        return self.write_chat([Message(USER, (question,)), *answered])

    def write_chat(self, messages: Sequence[Message]) -> Turns:
        """Write the turns of a chat; of a last turn of the assistant, the answer, without what follows its text.

        White space around turns is dropped; between the parts of one it stays.

        Raises:
            PromptError: there is no template, it refuses the turns, or a text is not found in what it writes.
        """
        if len(messages) > _MOST_TURNS:
            raise PromptError(
                f"it is a chat of {len(messages):,} turns, and at most {_MOST_TURNS:,} are written; give a part of it."
            )
        turns = [Message(turn.role, _trimmed(turn.parts)) for turn in messages]
        answer = turns[-1].text if turns[-1].role == ASSISTANT else None
        # A marker stands for the answer: what is before it is the question's.
        marked = turns if answer is None else [*turns[:-1], Message(ASSISTANT, (ANSWER,))]
        frame = self._frame(shape_of(marked))
        rendered = self._render(marked, frame.as_parts)
        remarks = self._check_texts(marked, rendered, frame)
        self._look_for_idle_options(marked, frame.as_parts, rendered, answer)
        if len(turns[-1].parts) > len(marked[-1].parts):
            remarks += ("the answer has several parts, which stand on lines of their own",)
        if any(len(turn.parts) > 1 for turn in marked) and not frame.as_parts:
            remarks += ("the chat template takes texts alone, so that parts stand on lines of their own",)
        if answer is None:
            remarks += remarks_of(frame.text, frame.markers, is_open=True)
            return Turns(rendered, None, remarks, frame.text)
        before = _before_answer(rendered)
        frame_before, _, _ = frame.text.rpartition(ANSWER)
        self._require_order(frame, frame_before)
        without_thinking = without_own_thinking(before, answer)
        if without_thinking != before:
            remarks += ("the answer brings its own <think>, so that of the chat template is left out",)
        else:
            remarks += remarks_of(frame_before + answer, frame.markers, is_open=False)
        with_answer = self._render([*turns[:-1], Message(ASSISTANT, (answer,))], frame.as_parts)
        if not as_words(with_answer).startswith(as_words(without_thinking + answer)):
            remarks += ("the chat template would change the answer, which is measured as it was given",)
        return Turns(without_thinking, answer, remarks, frame.text)

    def _look_for_idle_options(
        self, turns: Sequence[Message], as_parts: frozenset[str], rendered: str, answer: str | None
    ) -> None:
        """Look for options without which a chat is the same; many are read only where the assistant's turn is begun."""
        self.chats += 1
        self.begun += answer is None
        asked_clock = self.asks_clock
        self._idle = [
            name
            for name in (self.options if self._idle is None else self._idle)
            if _measured(self._render_without(name, turns, as_parts), answer) == _measured(rendered, answer)
        ]
        self.asks_clock = asked_clock

    def _render_without(self, option: str, turns: Sequence[Message], as_parts: frozenset[str]) -> str | None:
        """The chat as text without an option; None where the template refuses it then."""
        try:
            return self._render(turns, as_parts, without=option)
        except PromptError:
            return None

    def _frame(self, shape: Shape) -> Frame:
        """Find the form of contents in which the template writes every marker: texts, or lists of parts."""
        if shape not in self._frames:
            self._frames[shape] = self._find_frame(shape)
        return self._frames[shape]

    def _find_frame(self, shape: Shape) -> Frame:
        turns = markers_of(shape)
        roles = frozenset(role for role, _ in shape)
        # contents of several parts are given as such wherever the template takes them
        is_list = any(parts > 1 for _, parts in shape)
        forms = [roles, frozenset[str]()] if is_list else [frozenset[str](), roles]
        refusal: PromptError | None = None
        frames: list[Frame] = []
        while forms:
            as_parts = forms.pop(0)
            try:
                rendered = self._render(turns, as_parts)
            except PromptError as error:
                refusal = refusal or error
                continue
            frame = Frame(rendered, as_parts, turns)
            lost = frame.lost_roles
            if not lost:
                self._require_steady(frame)
                return frame
            frames.append(frame)
            # some templates take one role's contents as parts and the other's as text
            if not as_parts and lost != roles:
                forms.insert(0, lost)
        if not frames:
            raise refusal or PromptError("the chat template writes nothing; leave chat out.")
        raise _loses(frames)

    def _require_order(self, frame: Frame, frame_before: str) -> None:
        """Refuse a template that writes the answer before other turns, or twice."""
        early = next((turn for turn in frame.turns[:-1] if not all(writes(m, frame_before) for m in turn.parts)), None)
        if early is not None:
            what = "the question" if early.role == USER else f"a turn of the {early.role}"
            raise PromptError(
                f"the chat template writes the answer before {what}, so that it would be read without it."
            )
        if writes(ANSWER, frame_before):
            raise PromptError(
                "the chat template writes the answer twice, so that it would be read before it is asked for."
            )

    def _require_steady(self, frame: Frame) -> None:
        """Refuse a template that draws what it writes, so that no prompt would be the same twice."""
        if not _DRAWS.search(str(self.tokenizer.chat_template)):
            return
        if any(self._render(frame.turns, frame.as_parts) != frame.text for _ in range(_DRAWINGS)):
            raise PromptError(
                "the chat template writes another text each time that it is asked (random), so that no prompt would be "
                "measured twice alike; take the random choice out of it."
            )

    def _check_texts(self, turns: Sequence[Message], rendered: str, frame: Frame) -> tuple[str, ...]:
        """Refuse a rendering without the whole text of every turn; white space may differ.

        Returns:
            What is to be said of thinking that earlier answers lose.
        """
        if as_words(rendered) == as_words(place_texts(frame, turns)):
            return ()
        cut = False
        for number, turn in enumerate(turns):
            for part, text in enumerate(turn.parts):
                is_answer = frame.turns[number].parts[part] == ANSWER
                if is_answer or not text or self._stands(turns, number, part, text, rendered, frame):
                    continue
                visible = text.rpartition(_END_OF_THINKING)[2].strip()
                thinks = turn.role == ASSISTANT and _END_OF_THINKING in text and bool(visible)
                if not thinks or as_words(visible) not in as_words(rendered):
                    raise _lost(f"the {turn.role}'s text {elided(repr(text), 40)}", rendered.replace(ANSWER, "…"))
                cut = True
        return ("the chat template leaves out the thinking of earlier answers",) if cut else ()

    def _stands(self, turns: Sequence[Message], number: int, part: int, text: str, rendered: str, frame: Frame) -> bool:
        """Whether one text is written as often as where another text of its form takes its place.

        What the template writes around a text may depend on it, as on its length, but the text itself must be there.
        """
        stand_in = _stand_in(text)
        others = [list(turn.parts) for turn in turns]
        others[number][part] = stand_in
        changed = [turn._replace(parts=tuple(parts)) for turn, parts in zip(turns, others)]
        try:
            twin = self._render(changed, frame.as_parts)
        except PromptError:
            # it takes no such text
            twin = place_texts(frame, changed)
        written, rare, meant = (as_words(each) for each in (twin, stand_in, text))
        return rare in written and as_words(rendered).count(meant) >= written.replace(rare, meant).count(meant)

    def _render(self, turns: Sequence[Message], as_parts: frozenset[str], without: str = "") -> str:
        """The chat as text; after a user's last turn with whatever begins the assistant's."""
        if not self.tokenizer.chat_template:
            raise PromptError(
                f"chat=True, and {type(self.tokenizer).__name__} has no chat template; leave it out (texts are then "
                "measured as they are, and chats cannot be), put a chat_template.jinja into the model's folder, or "
                "give the tokenizer of a model that was trained on chats (load(model, tokenizer=…))."
            )
        try:
            template = str(self.tokenizer.get_chat_template())
        # several by name, and none for chats
        except ValueError as error:
            reason = elided(error, 120)
            raise PromptError(f"the tokenizer has no chat template for chats ({reason}); leave chat out.") from error
        require_options(self.options, template)
        messages = [turn._replace(is_list=turn.role in as_parts).as_given() for turn in turns]
        # a template may name the clock and not ask it, as for a list of tools
        if not self.asks_clock:
            try:
                return self._applied(messages, UNASKED, without)
            except PromptError as error:
                if ASKED not in str(error):
                    raise
            self.asks_clock = True
        return self._applied(messages, FIXED, without)

    def _applied(self, messages: list[dict[str, Any]], clock: str, without: str) -> str:
        """Apply the template.

        Args:
            clock: the macro that takes the place of the clock.
            without: an option that is left out.
        """
        template = str(self.tokenizer.get_chat_template()) if self._clocked is None else clock + self._clocked
        return self._rendering(messages, template, is_open=messages[-1]["role"] != ASSISTANT, without=without)

    @cached_property
    def _rendering(self) -> Rendering:
        return Rendering(self.tokenizer, self.options)


def _before_answer(rendered: str) -> str:
    """Return what a template writes before the marker of the answer."""
    return rendered.rpartition(ANSWER)[0]


def _measured(rendered: str | None, answer: str | None) -> str | None:
    """Return what is measured of a rendering, but for the answer itself."""
    if rendered is None or answer is None:
        return rendered
    return without_own_thinking(_before_answer(rendered), answer)


def _trimmed(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a turn without white space around it as a whole."""
    if len(parts) == 1:
        return (parts[0].strip(),)
    return (parts[0].lstrip(), *parts[1:-1], parts[-1].rstrip())


def _stand_in(text: str) -> str:
    """Return a text of the same form that is in no template: its blanks, and one rare letter for all others."""
    return "".join(letter if letter.isspace() else _RARE for letter in text)


def _loses(frames: Sequence[Frame]) -> PromptError:
    """Return the error for a template that loses some turn in every form of contents."""
    least = min(frames, key=lambda frame: len(frame.lost_roles))
    is_answered = least.turns[-1].role == ASSISTANT
    if is_answered and all(writes(marker, least.text) for turn in least.turns[:-1] for marker in turn.parts):
        return PromptError("the chat template leaves out the assistant's turn, which the answer would be.")
    role = next(turn.role for turn in least.turns if turn.role in least.lost_roles)
    return _lost(f"the {role}'s text", least.text)


def _lost(what: str, rendered: str) -> PromptError:
    return PromptError(
        f"the chat template does not write {what}: it gives {elided(repr(rendered), 60)}. Leave chat out, or give a "
        "tokenizer with another template (load(model, tokenizer=…))."
    )
