"""Tables in memory as prompts: frames, data sets and lists of dicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow
import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.in_memory import kept_source
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import require_there, resolve
from bathyscope.prompts.tables import is_table

TURNS = [{"role": "user", "content": "Two?"}, {"role": "assistant", "content": "Three."}]
TEXTS = [
    {"text": "One 2", "answer": "2", "level": 1, "id": "a"},
    {"text": "Open", "answer": None, "level": 2, "id": "b"},
]
CHATS = [{"messages": TURNS, "level": 1}, {"messages": TURNS[:1], "level": 2}]


class PolarsLike:
    """What polars has of its frames' methods, where the library itself is not installed."""

    columns = ("text",)

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def to_dicts(self) -> list[dict[str, Any]]:
        return self._rows

    def to_dict(self) -> dict[str, Any]:
        raise AssertionError("columns are not rows")


class Query:
    """What polars has of a query's methods; asking for its columns runs it."""

    def collect(self) -> None: ...

    def collect_schema(self) -> None: ...

    @property
    def columns(self) -> None:
        raise AssertionError("the query is run")


def polars_frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import polars
    except ImportError:
        return PolarsLike(rows)
    return polars.DataFrame(rows)


MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas of arrays": lambda rows: pd.DataFrame(rows).map(lambda v: np.array(v) if isinstance(v, list) else v),
    "pandas types": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "polars": polars_frame,
    "pyarrow": pyarrow.Table.from_pylist,
    "datasets": datasets.Dataset.from_list,
    "datasets stream": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
    "dicts": list,
    "generator": iter,
}


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_every_table_is_the_same_prompts(kind: str) -> None:
    prompts = resolve(MAKERS[kind](TEXTS))
    assert prompts.dataset == "given"
    assert [(p.text, p.answer, p.id, dict(p.labels)) for p in prompts.prompts] == [
        ("One 2", "2", "a", {"level": 1}),
        ("Open", None, "b", {"level": 2}),
    ]
    chats = resolve(MAKERS[kind](CHATS)).prompts
    assert [(chat.messages, dict(chat.labels)) for chat in chats] == [
        (Prompt(messages=TURNS).messages, {"level": 1}),
        (Prompt(messages=TURNS[:1]).messages, {"level": 2}),
    ]


def test_dicts_stand_among_other_prompts_of_a_list() -> None:
    prompts = resolve(["A text", {"text": "Two 2", "answer": "2"}, [5, 6], {"text": "Last", "level": math.nan}])
    assert prompts.dataset == "given"
    assert [(p.text, p.ids, p.answer) for p in prompts.prompts] == [
        ("A text", None, None),
        ("Two 2", None, "2"),
        (None, (5, 6), None),
        ("Last", None, None),
    ]


def test_a_table_stands_among_other_sources() -> None:
    prompts = resolve(["A text", pd.DataFrame(TEXTS), {"source": "problems:1?steps=1"}])
    assert [part.dataset for part in prompts.parts] == ["given", "given", "problems:1?steps=1"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "datasets", "dicts"])
def test_columns_of_other_names_are_to_be_renamed(kind: str) -> None:
    table = MAKERS[kind]([{"question": "Why?", "output": "So."}])
    with pytest.raises(PromptError, match=r"neither given\. Rename 'question' to 'text' and 'output' to 'answer'\."):
        require_there(table)


def test_what_is_no_table_yet_is_refused() -> None:
    with pytest.raises(PromptError, match=r"a query that was not run; give its frame \(query\.collect\(\)\)"):
        resolve(Query())  # type: ignore[arg-type]
    with pytest.raises(PromptError, match="The table of prompts is empty"):
        resolve(pd.DataFrame({"text": []}))
    with pytest.raises(PromptError, match="the list, prompt 1: turn 1 has the role 'human'"):
        resolve(["A text", {"messages": [{"role": "human", "content": "a"}]}])
    assert not any(map(is_table, (pd.DataFrame, pd.Series(["a"]), np.zeros(2), ["a"], {"text": "a"}, "a")))


def test_a_table_is_kept_as_its_prompts() -> None:
    assert kept_source(pd.DataFrame(CHATS)) == list(resolve(CHATS).prompts)
    assert kept_source(["A text", TEXTS[0]]) == ["A text", *resolve(TEXTS[:1]).prompts]


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_two_columns_of_one_name_are_refused(library: str) -> None:
    """A row keeps the last of them, so that another text would be measured."""
    table: Any = pd.DataFrame([["One two", "Three"]], columns=["text", "text"])
    if library == "pyarrow":
        table = pyarrow.table([["One two"], ["Three"]], names=["text", "text"])
    with pytest.raises(PromptError, match="the table has 2 columns named 'text'; keep one, or rename the others"):
        kept_source(table)
