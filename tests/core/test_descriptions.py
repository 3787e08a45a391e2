"""Each option is described once, and calls and shells read it there."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_verbs import VERBS

import bathyscope
from bathyscope.core.calls import takes
from bathyscope.core.descriptions import DEFERRED, Doc, Unset, complete, read_entries, texts_of
from bathyscope.measures.registry import MEASURES
from bathyscope.options import Range, Repeatable
from bathyscope.pages.options import FileOptions

SRC = Path(bathyscope.__file__).parent
WORDS = st.from_regex(r"[a-z]{1,9}", fullmatch=True).filter(lambda word: not iskeyword(word))
CALLS = [kind for kind in VERBS if kind is not FileOptions]
"""Options of verbs that people call; of files the command alone is."""
SHORTEST = 35
"""Letters of a description that is a sentence; "of the resampling." may be said of several."""


@dataclass(frozen=True)
class Described:
    """Options of a made-up verb.

    Args:
        size, width: of the ``thing``;
            on two lines: so.
        out: folder of it.
        files: rows from a file.
    """

    size: Annotated[int, Range(1)] = 1
    width: float = 0.5
    out: Annotated[str | None, Unset("in memory alone", shell="runs/THING")] = None
    level: Annotated[float, Range(0, 1), Doc("coverage.")] = 0.9
    kind: Literal["a", "b"] = "a"
    files: Annotated[Sequence[str] | None, Repeatable("NAME=FILE")] = None


@takes(Described)
def verb(
    model: object,
    out: str | None = None,
    *rest: object,
    level: float = 0.9,
    size: int = 1,
    quiet: Annotated[bool, Doc("say nothing.")] = False,
    **options: Any,
) -> None:
    """Do something.

    More of it.

    Args:
        **options: others: any.
        model: what is
            measured: so.
        ...: the options of ``Described``.
        size: A text is allowed too.

    Returns:
        Nothing: of this.
    """


def test_a_docstring_gets_an_entry_for_each_option() -> None:
    assert verb.__doc__ == "\n".join(
        [
            "Do something.",
            "",
            "More of it.",
            "",
            "Args:",
            "    model: what is",
            "        measured: so.",
            "    out: folder of it. None = in memory alone.",
            "    level: coverage; allowed: 0 to 1.",
            "    size: of the ``thing``; on two lines: so; allowed: 1 or more. A text is allowed too.",
            "    quiet: say nothing.",
            "    **options: others: any.",
            "",
            "Returns:",
            "    Nothing: of this.",
        ]
    )


def test_a_shell_is_told_what_differs_there() -> None:
    hints = inspect.get_annotations(Described, eval_str=True)
    texts = {name: complete(text, hints[name], "shell") for name, text in texts_of(Described).items()}
    assert texts["out"] == "folder of it. None = runs/THING."
    assert texts["files"] == "rows from a file, as NAME=FILE; may be given several times."
    assert complete("of three", Literal["a", "b"]) == "of three"
    assert complete("any.", list[Literal["a"]] | None) == "any."


def test_docstrings_may_be_missing() -> None:
    @takes(Described)
    def bare(size: int = 1) -> None: ...

    assert bare.__doc__ is None


@given(st.dictionaries(WORDS, st.lists(WORDS, min_size=1, max_size=40).map(" ".join), max_size=5))
def test_entries_that_are_written_are_read_again(texts: dict[str, str]) -> None:
    def function() -> None:
        """Do.

        Returns:
            it.
        """

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in texts]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {name: Annotated[int, Doc(text)] for name, text in texts.items()}
    described = str(takes()(function).__doc__)
    assert read_entries(described) == texts
    assert described.startswith("Do.")
    assert described.endswith("Returns:\n    it.")
    assert max(map(len, described.splitlines())) <= 112


@pytest.mark.parametrize(
    "options_type", [kind for kind in VERBS if kind is not FileOptions], ids=lambda options_type: options_type.__name__
)
def test_the_help_of_a_verb_describes_every_option(options_type: type) -> None:
    verb = VERBS[options_type]
    entries = read_entries(verb.__doc__ or "")
    texts = texts_of(options_type)
    parameters = inspect.signature(verb).parameters
    assert set(parameters) - {*entries, *(name.lstrip("*") for name in entries)} == set()
    assert [
        name for name, text in texts.items() if name not in entries or not entries[name].startswith(text.rstrip("."))
    ] == []
    source = read_entries(inspect.getdoc(inspect.unwrap(verb)) or "")
    assert source[DEFERRED] == f"the options of ``{options_type.__name__}``."
    assert DEFERRED not in entries


@pytest.mark.parametrize("name", MEASURES)
def test_the_help_of_a_measures_options_describes_each(name: str) -> None:
    options_type = MEASURES[name].options_type
    entries = read_entries(options_type.__doc__ or "")
    assert list(entries) == [option.name for option in fields(options_type)]
    assert all(entries.values())


def sentences_of_docstrings() -> Iterator[str]:
    """Text of each docstring and of each other text of the package, on one line."""
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield " ".join(node.value.split())


def test_no_option_is_described_twice() -> None:
    types = [*VERBS, *(declaration.options_type for declaration in MEASURES.values())]
    texts = {
        text: f"{kind.__name__}.{option.name}"
        for kind in types
        for option in fields(kind)
        if len(text := texts_of(kind).get(option.name, "")) >= SHORTEST
    }
    assert len(texts) > 100
    plain = {re.sub('``|"', "", text): name for text, name in texts.items()}
    times: Counter[str] = Counter()
    for words in (re.sub('``|"', "", words) for words in sentences_of_docstrings()):
        times.update({text: words.count(text) for text in plain if text in words})
    assert {plain[text]: number for text, number in times.items() if number > 1} == {}
