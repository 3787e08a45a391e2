"""How prompts were read, as results say it, so that whoever reads a result can read other prompts alike."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from bathyscope.core.common_options import ChatForm
from bathyscope.core.text import elided
from bathyscope.errors import StoreError

READING: Final = "reading"
"""What results call it: a note of a run's record, and an attribute of a plan."""
_SPECIAL, _CHAT = "add_special_tokens", "chat"


def is_chat_form(value: object) -> bool:
    """Return whether a value is one that the option ``chat`` may have."""
    return isinstance(value, bool) or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))


def reading_record(add_special_tokens: bool, chat: ChatForm) -> dict[str, Any]:
    """Return what a result says of it, as plain JSON values; empty for texts as they stand with special tokens."""
    options = {_SPECIAL: add_special_tokens, _CHAT: dict(chat) if isinstance(chat, Mapping) else chat}
    return {} if options == {_SPECIAL: True, _CHAT: False} else options


def without_texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the word TEXT for the texts among a template's options, where none may be stored."""
    chat = record.get(_CHAT)
    if not isinstance(chat, Mapping):
        return dict(record)
    plain = {name: value if value is None or isinstance(value, int | float) else "TEXT" for name, value in chat.items()}
    return {**record, _CHAT: plain}


def recorded_reading(record: object) -> dict[str, Any]:
    """Return the options of the call that reads prompts so, from what a result says; empty where it says nothing.

    Raises:
        StoreError: it is no record of this kind.
    """
    if record is None or record == {}:
        return {}
    chat = record.get(_CHAT) if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(record.get(_SPECIAL), bool) or not is_chat_form(chat):
        raise StoreError(
            f"The result says that its prompts were read by {elided(repr(record), 80)}; allowed are "
            "add_special_tokens, true or false, and chat, true, false or options of a template. Restore it from a copy."
        )
    return {_SPECIAL: record[_SPECIAL], _CHAT: chat}


def reading_flags(options: Mapping[str, Any]) -> str:
    """Return the flags of every command with prompts that read them so, with a space before each.

    Example:
        >>> from bathyscope.prompts.reading import reading_flags
        >>> reading_flags({"add_special_tokens": False, "chat": {"enable_thinking": False}})
        ' --chat.enable_thinking false --no-add-special-tokens'
    """
    chat = options.get(_CHAT, False)
    flags = [" --chat"] if chat is True or chat == {} else []
    if isinstance(chat, Mapping):
        flags += [f" {shlex.quote(f'--chat.{name}')} {shlex.quote(_as_typed(value))}" for name, value in chat.items()]
    return "".join([*flags, "" if options.get(_SPECIAL, True) else " --no-add-special-tokens"])


def _as_typed(value: Any) -> str:
    """Return a value as the command line reads it back: a text as it stands, unless JSON would read another value."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False)
