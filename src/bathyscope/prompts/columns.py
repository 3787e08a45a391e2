"""Prompts of a table's rows, of which the source says which columns hold the text, the answer and labels."""

from collections.abc import Iterable, Mapping
from itertools import islice

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.answers import ends_nearly_in
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Label, Prompt


def by_columns(
    rows: Iterable[Row],
    where: str,
    *,
    text: str,
    answer: str | None = None,
    labels: str | Mapping[str, str] = "",
    count: int | None = None,
) -> tuple[Prompt, ...]:
    """Return the first rows of a table as prompts; no more rows are read than they need.

    Args:
        where: what the rows are of, for messages.
        text: the column of the text; the answer comes behind it, after a space, where it does not end with it.
        answer: the column of the answer, text or a number; None = prompts have none.
        labels: columns of texts or numbers that become labels, with commas between them; or label → column.
        count: how many rows; None = all.

    Raises:
        PromptError: no such column, fewer rows than asked for, or a value that is no text or number; names the row.
    """
    label_columns = dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels.split(",") if name}
    columns = (text, *([] if answer is None else [answer]), *label_columns.values())
    prompts = []
    for number, row in enumerate(islice(rows, count), start=1):
        missing = next((column for column in columns if column not in row), None)
        if missing is not None:
            row_columns = list(map(str, row))
            near = did_you_mean(missing, row_columns)
            raise PromptError(f"{where} has no column {missing!r}; it has {', '.join(row_columns)}.{near}")
        prompts.append(_prompt(row, text, answer, label_columns, f"{where}, row {number}"))
    if not prompts or (count is not None and len(prompts) < count):
        shortfall = "" if count is None else f" and {count} were asked for; ask for at most that"
        raise PromptError(f"{where} has {len(prompts)} rows{shortfall}.")
    return tuple(prompts)


def _prompt(row: Row, text: str, answer: str | None, labels: Mapping[str, str], where: str) -> Prompt:
    body = row[text]
    if not isinstance(body, str):
        raise PromptError(f"{where}: column {text!r} must hold text, not {type(body).__name__}.")
    label_values: dict[str, Label] = {name: _value(row, column, where) for name, column in labels.items()}
    if answer is None:
        return Prompt(text=body, labels=label_values)
    answer_text = str(_value(row, answer, where))
    # One blank between text and answer, unless one of them brings it along.
    if body[-1:].isspace() or answer_text[:1].isspace() or body.endswith(answer_text):
        return Prompt(text=body, answer=answer_text, labels=label_values)
    # whether such an answer comes once more nobody can tell, which is said where texts are read
    if ends_nearly_in(body, answer_text):
        return Prompt(text=body, answer=answer_text, labels=label_values)
    return Prompt(text=f"{body} {answer_text}", answer=answer_text, labels=label_values)


def _value(row: Row, column: str, where: str) -> Label:
    value = row[column]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PromptError(f"{where}: column {column!r} must hold text or a number, not {type(value).__name__}.")
    return value
