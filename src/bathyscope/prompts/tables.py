"""Tables in memory as rows of prompts: frames of pandas and polars, tables of pyarrow, and data sets of ``datasets``.

They are known by the methods that give their rows, so that none of these libraries is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bathyscope.errors import PromptError
from bathyscope.prompts.files import Row, require_distinct

_MISSING: Final = ("NAType", "NaTType")
"""Types of pandas for a value that is missing."""


def is_table(value: object) -> bool:
    """Whether this is a table in memory, of any of these libraries, or a query for one."""
    if isinstance(value, type | Mapping):
        return False
    # a query that is asked for its columns is run
    if is_unread(value) or (hasattr(value, "column_names") and hasattr(value, "features")):
        return True
    return hasattr(value, "columns") and any(hasattr(value, name) for name in ("to_dicts", "to_pylist", "to_dict"))


def is_unread(value: object) -> bool:
    """Whether this is a polars query that was not run."""
    return hasattr(value, "collect") and hasattr(value, "collect_schema") and not hasattr(value, "to_dicts")


def rows_of(table: Any) -> list[Row]:
    """Return the rows of a table in memory, as plain Python values.

    Raises:
        PromptError: a query that was not run, or two columns of one name.
    """
    if is_unread(table):
        raise PromptError("Prompts are given as a query that was not run; give its frame (query.collect()).")
    require_distinct("the table", [str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))])
    if hasattr(table, "to_dicts"):
        rows = table.to_dicts()
    elif hasattr(table, "to_pylist"):
        rows = table.to_pylist()
    elif hasattr(table, "to_dict") and hasattr(table, "columns"):
        rows = table.to_dict(orient="records")
    else:
        rows = list(table)
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows]


def plain_row(row: Mapping[Any, Any]) -> Row:
    """Return a dict that somebody wrote with plain Python values."""
    return {str(key): _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    """Return arrays as lists, whatever they are inside of, and what is missing as None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if type(value).__name__ in _MISSING else value
