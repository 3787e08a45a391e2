"""Prompts of any data set on the hub, of which the source says which columns they are in."""

from __future__ import annotations

from itertools import islice

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.files import Row
from bathyscope.prompts.hub import hub_rows
from bathyscope.prompts.prompt import Label, Prompt


def column_prompts(
    hub: str,
    *,
    split: str,
    text: str,
    answer: str | None = None,
    labels: tuple[str, ...] = (),
    config: str | None = None,
    count: int | None = None,
) -> tuple[Prompt, ...]:
    """The first rows of a split as prompts; no more of it is fetched than they need.

    Args:
        hub: name of the data set there, or a folder of the same layout.
        text: the column of the text; the answer comes behind it, after a space, where it does not end with it.
        answer: the column of the answer, text or a number; None = prompts have none.
        labels: columns of texts or numbers that become labels.
        config: configuration of the data set; None = the only one.
        count: how many rows; None = all.

    Raises:
        PromptError: the rows cannot be had, there are fewer, or a column is missing or holds something else.
    """
    where = f"{hub} (split {split!r})"
    rows = hub_rows(hub, config, split, "give a local file (mine.jsonl, one prompt a line)", streaming=True)
    columns = (text, *([] if answer is None else [answer]), *labels)
    found = []
    for number, row in enumerate(islice(rows, count), start=1):
        missing = next((column for column in columns if column not in row), None)
        if missing is not None:
            there = list(map(str, row))
            raise PromptError(
                f"{where} has no column {missing!r}; it has {', '.join(there)}.{did_you_mean(missing, there)}"
            )
        found.append(_prompt(row, text, answer, labels, f"{where}, row {number}"))
    if not found or (count is not None and len(found) < count):
        asked = "" if count is None else f" and {count} were asked for; ask for at most that"
        raise PromptError(f"{where} has {len(found)} rows{asked}.")
    return tuple(found)


def _prompt(row: Row, text: str, answer: str | None, labels: tuple[str, ...], where: str) -> Prompt:
    said = row[text]
    if not isinstance(said, str):
        raise PromptError(f"{where}: column {text!r} must hold text, not {type(said).__name__}.")
    held: dict[str, Label] = {name: _value(row, name, where) for name in labels}
    if answer is None:
        return Prompt(text=said, labels=held)
    given = str(_value(row, answer, where))
    if said.endswith(given) or said[-1:].isspace() or given[:1].isspace():
        return Prompt(text=said, answer=given, labels=held)
    return Prompt(text=f"{said} {given}", answer=given, labels=held)


def _value(row: Row, column: str, where: str) -> Label:
    value = row[column]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PromptError(f"{where}: column {column!r} must hold text or a number, not {type(value).__name__}.")
    return value
