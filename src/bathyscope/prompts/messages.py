"""Turns of a chat as people write them: roles, and contents that are texts or lists of parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bathyscope.core.text import elided, require_text
from bathyscope.errors import PromptError, describe_value, warn

USER: Final = "user"
ASSISTANT: Final = "assistant"
SYSTEM: Final = "system"
_DEVELOPER: Final = "developer"
ROLES: Final = (SYSTEM, _DEVELOPER, USER, ASSISTANT)
CALLS: Final = ("tool_calls", "function_call", "tools", "functions")
"""Keys of chats whose template writes more than the texts of turns."""
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_EXAMPLE: Final = '[{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'


class Message(NamedTuple):
    """One turn of a chat.

    Args:
        role: one of ``ROLES``.
        parts: its texts; one where the content is a text, or a list of a single part.
        is_list: the content is a list of parts.
    """

    role: str
    parts: tuple[str, ...]
    is_list: bool = False

    @property
    def text(self) -> str:
        """All parts, on lines of their own."""
        return "\n".join(self.parts)

    def as_given(self) -> dict[str, Any]:
        """Return the turn as files hold it."""
        parts = [{"type": "text", "text": part} for part in self.parts]
        return {"role": self.role, "content": parts if self.is_list else self.text}


def read_messages(messages: Any) -> tuple[Message, ...]:
    """Return the turns of a chat.

    Args:
        messages: dicts with ``role`` and ``content``, or turns that were read already.

    Raises:
        PromptError: no list, an unknown role, contents that are no text, or a chat that neither asks nor answers; names
            the turn.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise PromptError(f"messages= must be a list of turns, {_EXAMPLE}, not {describe_value(messages)}.")
    turns = tuple(_read_message(message, f"turn {number}") for number, message in enumerate(messages, start=1))
    if not turns or turns[-1].role not in (USER, ASSISTANT):
        last = "it has no turns" if not turns else f"its last turn is the {turns[-1].role}'s"
        raise PromptError(f"{last}; a chat ends with a turn of the user (open) or the assistant (the answer).")
    if turns[-1].role == ASSISTANT and len(turns) == 1:
        raise PromptError("its only turn is the assistant's, and nothing stands before that answer; give a question.")
    return turns


def warn_of_other_keys(chats: Iterable[Any], where: str = "") -> None:
    """Warn of keys of turns that are not read, such as reasoning_content, once for all chats."""
    turns = (turn for chat in chats if isinstance(chat, Sequence) for turn in chat if isinstance(turn, Mapping))
    others = dict.fromkeys(repr(key) for turn in turns for key in turn if key not in ("role", "content", *CALLS))
    if others:
        warn(f"{where}{', '.join(others)} of turns of chats are left aside; only role and content are read.")


def require_no_calls(holder: Mapping[Any, Any], where: str) -> None:
    """Refuse tools and their calls, which templates write in ways of their own."""
    called = next((key for key in CALLS if key in holder and not _is_empty(holder[key])), None)
    if called is not None:
        raise PromptError(f"{where} has {called!r}, and chats with tools are not read; leave such chats out.")


def _read_message(message: Any, where: str) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise PromptError(f"{where} must be an object with role and content, not {describe_value(message)}.")
    require_no_calls(message, where)
    missing = next((key for key in ("role", "content") if key not in message), None)
    if missing is not None:
        keys = ", ".join(repr(key) for key in message) or "none"
        raise PromptError(f"{where} has no {missing!r}; its keys: {keys}. Rename them to 'role' and 'content'.")
    role = message["role"]
    if role not in ROLES:
        raise PromptError(f"{where} has the role {elided(repr(role), 40)}; allowed: {', '.join(ROLES)}.")
    where = f"{where} ({role})"
    content = message["content"]
    is_list = isinstance(content, Sequence) and not isinstance(content, str | bytes)
    parts = tuple(_read_part(part, where) for part in content) if is_list else (_read_text(content, where),)
    if not "".join(parts).strip() and role in (USER, ASSISTANT):
        raise PromptError(f"{where} is empty; give its text, or leave the turn out.")
    return Message(role, parts, is_list)


def _read_part(part: Any, where: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in _TEXT_PARTS or "text" not in part:
        what = f"a part of type {elided(repr(kind), 40)}" if isinstance(part, Mapping) else describe_value(part)
        raise PromptError(f'{where} holds {what}; only text is measured: {{"type": "text", "text": "…"}}.')
    return _read_text(part["text"], where)


def _read_text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise PromptError(f"{where}: content must be a text or a list of parts, not {describe_value(text)}.")
    require_text(text, where, PromptError)
    return text


def _is_empty(value: Any) -> bool:
    return value is None or (hasattr(value, "__len__") and len(value) == 0)
