"""Rows that other tools write of chats, recognised by their keys, as rows of prompts.

``messages`` (OpenAI, TRL, axolotl), ``conversations`` (ShareGPT), ``instruction`` with ``output`` (alpaca), ``prompt``
with ``completion`` (TRL, OpenAI), and requests of OpenAI's batches (``custom_id`` with ``body``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bathyscope.core.text import elided
from bathyscope.errors import PromptError, describe_value
from bathyscope.prompts.messages import ASSISTANT, CALLS, SYSTEM, USER, read_messages, require_no_calls

Row = Mapping[str, Any]

_SPEAKERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("human", "user"), USER),
    **dict.fromkeys(("gpt", "assistant", "model", "bot", "chatgpt"), ASSISTANT),
    "system": SYSTEM,
}
"""What turns of ShareGPT files are ``from``, and the role that is meant."""


class Format(NamedTuple):
    """A form in which files hold chats.

    Args:
        name: what its files are called.
        keys: those that tell it; a row has all of them.
        read: from a row to one with the fields of a prompt; what is not in it is left aside.
        takes: keys that become fields.
    """

    name: str
    keys: tuple[str, ...]
    read: Callable[[Row], dict[str, Any]]
    takes: tuple[str, ...] = ()


def format_of(row: Row) -> Format | None:
    """Return the form of a row; None where it has a field of text or token ids, or the keys of no form."""
    if row.get("text") is not None or "ids" in row:
        return None
    return next((form for form in FORMATS if all(key in row for key in form.keys)), None)


def as_prompt_row(row: Row) -> Row:
    """Return a row of a chat as one with the fields of a prompt; other rows as they are.

    Raises:
        PromptError: it has the keys of a form, and values of another.
    """
    form = format_of(row)
    if form is None:
        return row
    require_no_calls(row, "it")
    rest = {key: value for key, value in row.items() if key not in (*form.keys, *form.takes, *CALLS)}
    return {**rest, **form.read(row)}


def _of_messages(row: Row) -> dict[str, Any]:
    return {"messages": _with_system(row, row["messages"])}


def _of_sharegpt(key: str) -> Callable[[Row], dict[str, Any]]:
    def read(row: Row) -> dict[str, Any]:
        turns = row[key]
        if not isinstance(turns, Sequence) or isinstance(turns, str):
            raise PromptError(f"{key!r} must be a list of turns, not {describe_value(turns)}.")
        return {"messages": _with_system(row, [_of_speaker(turn, number) for number, turn in enumerate(turns, 1)])}

    return read


def _of_speaker(turn: Any, number: int) -> Any:
    """Return a turn of a ShareGPT file by role and content; a turn that has them already as it is."""
    if not isinstance(turn, Mapping) or "role" in turn:
        return turn
    missing = next((key for key in ("from", "value") if key not in turn), None)
    if missing is not None:
        keys = ", ".join(map(repr, turn)) or "none"
        raise PromptError(f"turn {number} has no {missing!r}; its keys: {keys}. Rename them to 'from' and 'value'.")
    role = _SPEAKERS.get(str(turn["from"]).lower())
    if role is None:
        raise PromptError(
            f"turn {number} is from {elided(repr(turn['from']), 40)}; allowed: {', '.join(_SPEAKERS)}. Rename it."
        )
    others = {key: value for key, value in turn.items() if key not in ("from", "value")}
    return {"role": role, "content": turn["value"], **others}


def _of_alpaca(row: Row) -> dict[str, Any]:
    question, answer = _text_in(row, "instruction"), _text_in(row, "output")
    context = _text_in(row, "input") if _has(row, "input") else ""
    turns = []
    for number, earlier in enumerate(row.get("history") or (), start=1):
        if not isinstance(earlier, Sequence) or isinstance(earlier, str) or len(earlier) != 2:
            raise PromptError(f"entry {number} of 'history' must be a question and its answer, not {earlier!r:.60}.")
        turns += [{"role": USER, "content": earlier[0]}, {"role": ASSISTANT, "content": earlier[1]}]
    request = f"{question}\n{context}" if context.strip() else question
    turns += [{"role": USER, "content": request}, {"role": ASSISTANT, "content": answer}]
    return {"messages": _with_system(row, turns)}


def _of_completion(row: Row) -> dict[str, Any]:
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, str) and isinstance(completion, str):
        # the two are read as one text, as they were trained on: nothing is between them
        return {"text": prompt + completion, "answer": completion}
    if isinstance(prompt, str) or isinstance(completion, str):
        raise PromptError("'prompt' and 'completion' must both be texts, or both lists of turns.")
    return {"messages": [*read_messages(prompt), *_turns_in(completion)]}


def _turns_in(completion: Any) -> Sequence[Any]:
    if not isinstance(completion, Sequence) or not completion:
        raise PromptError(f"'completion' must be a text or a list of turns, not {describe_value(completion)}.")
    return completion


def _of_batch(row: Row) -> dict[str, Any]:
    body = row["body"]
    if not isinstance(body, Mapping):
        raise PromptError(f"'body' must be an object, not {describe_value(body)}.")
    require_no_calls(body, "'body'")
    if "messages" in body:
        turns = body["messages"]
    elif isinstance(body.get("input"), str):
        turns = [{"role": USER, "content": body["input"]}]
    elif "input" in body:
        turns = body["input"]
    elif isinstance(body.get("prompt"), str):
        return {"id": row["custom_id"], "text": body["prompt"]}
    else:
        raise PromptError(f"'body' has no 'messages'; its keys: {', '.join(map(repr, body)) or 'none'}.")
    system = {"system": body["instructions"]} if _has(body, "instructions") else {}
    return {"id": row["custom_id"], "messages": _with_system(system, turns)}


def _of_batch_results(row: Row) -> dict[str, Any]:
    raise PromptError("it is a result of a batch, which holds answers alone; give the file of its requests.")


def _with_system(row: Row, turns: Any) -> Any:
    """Return turns behind the system's text, where a row gives it apart from them."""
    if not _has(row, "system"):
        return turns
    if not isinstance(turns, Sequence):
        raise PromptError(f"'messages' must be a list of turns, not {describe_value(turns)}.")
    return [{"role": SYSTEM, "content": _text_in(row, "system")}, *turns]


def _has(row: Row, key: str) -> bool:
    """Whether a row has a text of this key; tables write an empty one, null or NaN where it has none."""
    value = row.get(key)
    return value is not None and value == value and value != ""


def _text_in(row: Row, key: str) -> str:
    if not isinstance(row[key], str):
        raise PromptError(f"{key!r} must be a text, not {describe_value(row[key])}.")
    return str(row[key])


FORMATS: Final = (
    Format("messages", ("messages",), _of_messages, ("system",)),
    Format("ShareGPT", ("conversations",), _of_sharegpt("conversations"), ("system",)),
    Format("ShareGPT", ("conversation",), _of_sharegpt("conversation"), ("system",)),
    Format("OpenAI batch", ("custom_id", "body"), _of_batch, ("method", "url")),
    Format("OpenAI batch results", ("custom_id", "response"), _of_batch_results),
    Format("alpaca", ("instruction", "output"), _of_alpaca, ("input", "system", "history")),
    Format("prompt and completion", ("prompt", "completion"), _of_completion),
)
