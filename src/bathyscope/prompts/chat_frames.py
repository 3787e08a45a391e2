"""What a chat template writes around texts: its rendering of markers that take their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from bathyscope.prompts.messages import ASSISTANT, Message

ANSWER: Final = "PlaceOfTheAnswer"
Shape = tuple[tuple[str, int], ...]
"""The role and the number of parts of each turn."""


@dataclass(frozen=True)
class Frame:
    """What a template writes around texts.

    Args:
        text: the rendering of the markers.
        as_parts: roles whose contents it takes as lists of parts.
        turns: the markers, in the form of the chat.
    """

    text: str
    as_parts: frozenset[str]
    turns: tuple[Message, ...]

    @property
    def markers(self) -> tuple[str, ...]:
        """Markers of all texts but the answer."""
        return tuple(marker for turn in self.turns for marker in turn.parts if marker != ANSWER)

    @cached_property
    def lost_roles(self) -> frozenset[str]:
        """Roles of turns that it does not write."""
        return frozenset(turn.role for turn in self.turns if not all(writes(m, self.text) for m in turn.parts))


def shape_of(turns: Sequence[Message]) -> Shape:
    """Return the roles of turns, and how many parts each has."""
    return tuple((turn.role, len(turn.parts)) for turn in turns)


def markers_of(shape: Shape) -> tuple[Message, ...]:
    """Return turns whose texts are markers, none of which is in another; the last of an assistant the answer's."""
    return tuple(
        Message(ASSISTANT, (ANSWER,))
        if number == len(shape) - 1 and role == ASSISTANT
        else Message(role, tuple(f"PlaceOfTurn{number:04d}Part{part:04d}" for part in range(parts)))
        for number, (role, parts) in enumerate(shape)
    )


def place_texts(frame: Frame, turns: Sequence[Message]) -> str:
    """Return the rendering of the markers with texts in their place."""
    text_by_marker = {
        marker: text for holder, turn in zip(frame.turns, turns) for marker, text in zip(holder.parts, turn.parts)
    }
    # in one pass, since a text may hold what is a marker
    marker = re.compile("|".join(map(re.escape, text_by_marker)))
    return marker.sub(lambda match: text_by_marker[match[0]], frame.text)


def writes(marker: str, rendered: str) -> bool:
    """Say whether a marker was written as text, and not inside of the list of parts that it came in."""
    quoted = re.compile(rf"['\"]text['\"]:\s*['\"]{marker}")
    return marker in quoted.sub("", rendered)
