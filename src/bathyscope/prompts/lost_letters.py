"""Letters that were lost before a text came here: U+FFFD, which decoders write where they can read none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bathyscope.errors import warn
from bathyscope.prompts.prompt import Prompt

LOST: Final = "\ufffd"


def warn_of_lost_letters(prompts: Sequence[Prompt]) -> None:
    """Warn where texts, answers or turns of a chat hold letters that were lost; the model reads others instead."""
    places = [number for number, prompt in enumerate(prompts) if any(LOST in text for text in _texts_of(prompt))]
    if places:
        name = prompts[places[0]].id or places[0]
        warn_of_lost(f"{len(places)} of {len(prompts)} prompts hold", f", first in prompt {name!r}")


def warn_of_lost(where: str, first: str = "") -> None:
    """Warn of lost letters.

    Args:
        where: what holds them, with its verb.
        first: where they begin.
    """
    warn(
        f"{where} U+FFFD ({LOST}){first}: it stands for letters that a decoder could not read, and the model reads "
        "it in their place. Decode the text by the encoding that it was written in, without errors='replace'."
    )


def _texts_of(prompt: Prompt) -> list[str]:
    texts = [prompt.text, prompt.answer, *(str(turn) for turn in prompt.messages or ())]
    return [text for text in texts if text is not None]
