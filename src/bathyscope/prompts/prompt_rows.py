"""Prompts of rows: a JSON object a line with ``Prompt``'s fields, or chats as other tools write them.

Errors name the file.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.conversations import as_prompt_row, format_of
from bathyscope.prompts.files import Row, read_rows
from bathyscope.prompts.messages import read_messages, warn_of_other_keys
from bathyscope.prompts.prompt import Prompt, require_words

_NEAR = 0.8
"""As ``anwser`` is to ``answer``; ``digits`` is as near to ``ids`` as 0.67."""

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("prompt", "question", "input", "query", "instruction", "problem", "content", "sentence", "source"),
    "ids": ("input_ids", "token_ids", "tokens"),
    "answer": ("completion", "target", "output", "response", "solution", "chosen"),
    "messages": ("message", "dialog", "dialogue", "chat", "chats", "turns"),
}
"""What the fields of a prompt are called in files of others."""

FIELDS = ("text", "ids", "answer", "answer_tokens", "id", "labels", "messages")


def read_prompts(path: str, *, count: int | None = None) -> tuple[Prompt, ...]:
    """Prompts of a file of JSON objects, in order; a PromptError with the number of a line that is none.

    Fields: ``text`` or ``ids``, ``answer`` or ``answer_tokens``, ``id``, ``labels`` (an object), ``messages``. Chats of
    other tools are recognised by their keys (``conversations.FORMATS``). Every other field that holds a text or a
    number is a label too; null and NaN are no value, and lists and objects are left aside with a warning.
    """
    # No more lines than are asked for are read, or can be wrong.
    rows = list(islice(read_rows(path), count))
    if not rows:
        raise PromptError(f'{path} holds no prompts; write one a line: {{"text": "…"}} or {{"ids": [1, 2]}}.')
    if count is not None and len(rows) < count:
        raise PromptError(f"{path} holds {len(rows)} prompts, {count} asked for; ask for at most {len(rows)}.")
    return prompts_of_rows(rows, path, is_file=True)


def recognised_prompts(
    rows: Iterable[Row], where: str, missing: str, *, count: int | None = None
) -> tuple[Prompt, ...]:
    """Prompts of a table of chats, in order, which its columns tell.

    Args:
        where: what the rows are of, for messages.
        missing: the message where they are no chats, so that the source has to name columns.

    Raises:
        PromptError: no chats, or fewer than asked for.
    """
    listed = list(islice(rows, count))
    if not listed or format_of(listed[0]) is None:
        raise PromptError(missing)
    if count is not None and len(listed) < count:
        raise PromptError(f"{where} has {len(listed)} rows and {count} were asked for; ask for at most that.")
    return prompts_of_rows(listed, where)


def prompts_of_rows(
    rows: Sequence[Row], where: str, numbers: Iterable[int] | None = None, *, is_file: bool = False
) -> tuple[Prompt, ...]:
    """Prompts of rows with the fields of prompts, or of chats of other tools.

    Args:
        where: what the rows are of, for messages.
        numbers: what the rows are called by; None = 1 and onwards, as lines of files are.
        is_file: they are of one, whose columns can be named behind its name.
    """
    places = [f"{where}, prompt {number}" for number in (range(1, len(rows) + 1) if numbers is None else numbers)]
    prompt_rows = []
    _warn_of_texts_of_chats(rows, where)
    for place, row in zip(places, rows, strict=True):
        try:
            prompt_rows.append(as_prompt_row(row))
        except PromptError as error:
            raise PromptError(f"{place}: {error}") from error
    # what chats of other tools hold besides is said once, and not for each prompt
    warn_of_other_keys((row.get("messages") for row in prompt_rows), f"{where}: ")
    prompts = tuple(_prompt(row, place, is_file) for row, place in zip(prompt_rows, places, strict=True))
    # the text of a misspelt field would be missing from the prompt
    for name, meant in {name: meant for row in prompt_rows for name, meant in _misspelt(row).items()}.items():
        warn(f"{where}: {name!r} is no field of a prompt and is taken for a label. Did you mean {meant!r}?")
    aside = {
        name: None for row in prompt_rows for name, value in row.items() if name not in FIELDS and _is_nested(value)
    }
    if aside:
        listed = ", ".join(map(repr, aside))
        verb = "holds" if len(aside) == 1 else "hold"
        warn(f"{where}: {listed} {verb} lists or objects, which cannot be labels, and are left aside.")
    return prompts


def _warn_of_texts_of_chats(rows: Sequence[Row], where: str) -> None:
    """Warn of files that hold a chat and, next to it, a text that somebody has made of it."""
    both = next(
        (form for row in rows if "text" in row and (form := format_of({**row, "text": None})) is not None), None
    )
    if both is not None:
        warn(
            f"{where}: 'text' is measured, and not the {both.name} chat next to it; to measure that, remove 'text' "
            "from the file."
        )


def prompt_lines(prompts: Iterable[Prompt]) -> str:
    """Prompts as the text of such a file; ``read_prompts`` gives them back."""
    rows = [{field: getattr(prompt, field) for field in FIELDS} for prompt in prompts]
    rows = [
        {**row, "messages": [turn.as_given() for turn in row["messages"]] if row["messages"] else None} for row in rows
    ]
    # NaN stands for no value, and JSON has no such number
    rows = [{**row, "labels": {k: v for k, v in row["labels"].items() if v == v}} for row in rows]
    set_fields = [{field: value for field, value in row.items() if value is not None and value != {}} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False, default=_in_json) + "\n" for row in set_fields)


def _in_json(value: Any) -> Any:
    """Labels in any mapping, with numbers of any library."""
    return dict(value) if isinstance(value, Mapping) else value.item()


def _prompt(row: Row, where: str, is_file: bool) -> Prompt:
    labels = row.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise PromptError(f'{where}: labels must be an object such as {{"level": 3}}, not {labels!r}.')
    extra = {key: row[key] for key in row if key not in FIELDS and not (_is_nested(row[key]) or _is_none(row[key]))}
    both = sorted(set(extra) & set(labels))
    if both:
        raise PromptError(f"{where}: {both[0]!r} stands both inside and outside labels; keep one.")
    fields = {field: value for field in FIELDS if not _is_none(value := row.get(field))}
    try:
        _require_numbers(labels)
        prompt = Prompt(
            text=fields.get("text"),
            ids=fields.get("ids"),
            answer=fields.get("answer"),
            answer_tokens=fields.get("answer_tokens"),
            id=str(fields["id"]) if "id" in fields else None,
            labels={**labels, **extra},
            messages=read_messages(fields["messages"]) if "messages" in fields else None,
        )
        require_words(prompt)
    except PromptError as error:
        hint = "".join(f" Did you mean {meant!r} by {name!r}?" for name, meant in _misspelt(row).items())
        if not hint and not {"text", "ids", "messages"} & row.keys():
            hint = _renaming(row, is_file) or f" Fields of this line: {', '.join(map(repr, row)) or 'none'}."
        raise PromptError(f"{where}: {error}{hint}") from error
    return prompt


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _is_none(value: Any) -> bool:
    """Return whether a field has no value here: null, or the NaN that Python writes for a missing number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _require_numbers(labels: Mapping[str, Any]) -> None:
    """Refuse NaN, which JSON does not have and Python's reader takes."""
    for name, value in labels.items():
        if isinstance(value, float) and math.isnan(value):
            raise PromptError(f"the label {name!r} is NaN, which is no number; leave the label out.")


def _renaming(row: Row, is_file: bool) -> str:
    """Say which fields of a row are called otherwise elsewhere, and how columns of a file are named; empty for none."""
    renamed: dict[str, str] = {}
    for field, other_names in _OTHER_NAMES.items():
        other = next((name for name in row if str(name).lower() in other_names), None)
        if other is not None and field not in row:
            renamed[field] = str(other)
    if not renamed:
        return ""
    words = " and ".join(f"{other!r} to {field!r}" for field, other in renamed.items())
    columns = {**renamed, **({"answer": "answer"} if "answer" in row else {})}
    # chats have no column, and other signs would have to be quoted
    is_by_column = (
        is_file
        and columns.keys() <= {"text", "answer"}
        and all(re.fullmatch(r"\w+", name) for name in columns.values())
    )
    options = "&".join(f"{field}={other}" for field, other in columns.items())
    return f" Rename {words}{f', or name the columns of the file (FILE?{options})' if is_by_column else ''}."


def _misspelt(row: Row) -> dict[str, str]:
    """Return names that are most likely misspelt fields, with the field that is meant."""
    intended = {}
    for name in row:
        close = difflib.get_close_matches(str(name).lower(), FIELDS, n=1, cutoff=_NEAR)
        if name not in FIELDS and close and close[0] not in row:
            intended[name] = close[0]
    return intended
