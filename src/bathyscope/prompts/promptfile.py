"""A file of prompts: one JSON object a line, with the fields of ``Prompt``."""

import difflib
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.files import Row, read_rows
from bathyscope.prompts.prompt import Prompt, whole_number

_NEAR = 0.8
"""As ``anwser`` is to ``answer``; ``digits`` is as near to ``ids`` as 0.67."""

FIELDS = ("text", "ids", "answer", "answer_tokens", "id", "labels")


def read_prompts(path: str, *, count: int | None = None) -> tuple[Prompt, ...]:
    """Prompts of a JSONL file, in order.

    Fields: ``text`` or ``ids``, ``answer`` or ``answer_tokens``, ``id``, ``labels`` (an object). Every other
    field that holds a text or a number is a label too; lists, objects and nulls are left aside.

    Raises:
        PromptError: unreadable file, a line that is no prompt (with its number), no prompts at all, or fewer
            than ``count``.
    """
    rows = list(islice(read_rows(path), count))
    if not rows:
        raise PromptError(f'{path} holds no prompts; write one a line: {{"text": "…"}} or {{"ids": [1, 2]}}.')
    if count is not None and len(rows) < count:
        raise PromptError(f"{path} holds {len(rows)} prompts, {count} asked for; ask for at most {len(rows)}.")
    prompts = tuple(_prompt(row, f"{path}, prompt {number}") for number, row in enumerate(rows, start=1))
    # the text of a misspelt field would be missing from the prompt
    for name, meant in {name: meant for row in rows for name, meant in _misspelt(row).items()}.items():
        warn(f"{path}: {name!r} is no field of a prompt and is taken for a label. Did you mean {meant!r}?")
    return prompts


def prompt_lines(prompts: Iterable[Prompt]) -> str:
    """Prompts as the text of such a file; ``read_prompts`` gives them back."""
    rows = [{field: getattr(prompt, field) for field in FIELDS} for prompt in prompts]
    given = [{field: value for field, value in row.items() if value is not None and value != {}} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False, default=_in_json) + "\n" for row in given)


def _in_json(value: Any) -> Any:
    """Labels in any mapping, with numbers of any library."""
    return dict(value) if isinstance(value, Mapping) else value.item()


def _prompt(row: Row, where: str) -> Prompt:
    labels = row.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise PromptError(f'{where}: labels must be an object such as {{"level": 3}}, not {labels!r}.')
    extra = {key: row[key] for key in row if key not in FIELDS and isinstance(row[key], (str, int, float))}
    both = sorted(set(extra) & set(labels))
    if both:
        raise PromptError(f"{where}: {both[0]!r} stands both in labels and beside it; keep one.")
    _check_types(row, where)
    name = row.get("id")
    try:
        return Prompt(
            text=row.get("text"),
            ids=row.get("ids"),
            answer=row.get("answer"),
            answer_tokens=row.get("answer_tokens"),
            id=None if name is None else str(name),
            labels={**labels, **extra},
        )
    except PromptError as error:
        hint = "".join(f" Did you mean {meant!r} by {name!r}?" for name, meant in _misspelt(row).items())
        raise PromptError(f"{where}: {error}{hint}") from error


def _misspelt(row: Row) -> dict[str, str]:
    """Names beside the fields that are most likely one of them, with the field that is meant."""
    found = {}
    for name in row:
        close = difflib.get_close_matches(str(name).lower(), FIELDS, n=1, cutoff=_NEAR)
        if name not in FIELDS and close and close[0] not in row:
            found[name] = close[0]
    return found


def _check_types(row: Row, where: str) -> None:
    def wrong(field: str, needed: str) -> PromptError:
        return PromptError(f"{where}: {field} must be {needed}, not {row[field]!r}.")

    for field in ("text", "answer"):
        if row.get(field) is not None and not isinstance(row[field], str):
            raise wrong(field, "a text")
    if row.get("ids") is not None and not is_token_ids(row["ids"]):
        raise wrong("ids", "a list of whole numbers")
    if row.get("answer_tokens") is not None and not is_token_ids([row["answer_tokens"]]):
        raise wrong("answer_tokens", "a whole number")


def is_token_ids(value: Any) -> bool:
    """Whether this is a list of whole numbers (truth values do not count)."""
    return isinstance(value, list) and all(whole_number(item) is not None for item in value)
