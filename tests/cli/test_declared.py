"""Signatures read from source are those that Python sees."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import pytest

import bathyscope
from bathyscope.cli.declared import Unknown, declared, descriptions

VERBS = ("compare", "depth_performance", "estimate", "evaluate", "group", "load", "maps", "solved_by", "survey")


@pytest.mark.parametrize("verb", VERBS)
def test_names_and_defaults_are_those_of_the_function(verb: str) -> None:
    seen = inspect.signature(getattr(bathyscope, verb)).parameters.values()
    wanted = {
        one.name: None if one.default is one.empty else one.default for one in seen if one.kind is not one.VAR_KEYWORD
    }
    found = declared(f"bathyscope:{verb}")
    assert {one.name: one.default for one in found} == wanted
    assert [one.name for one in found if not one.help] == []


def test_types_keep_what_is_plain_and_leave_classes_unknown() -> None:
    hints = {one.name: one.hint for one in declared("bathyscope:compare")}
    assert hints["against"] == Literal["blocks", "parameters"]
    assert hints["estimators"] == Sequence[str] | None
    assert {one.name: one.hint for one in declared("bathyscope:load")}["dtype"] == str | Unknown | None


def test_descriptions_are_one_line_each() -> None:
    text = """Does something.

    Args:
        a, b: of the ``thing``;
            on two lines: so.
        **rest: others.

    Returns:
        result: no argument.
    """
    both = "of the thing; on two lines: so."
    assert descriptions(text) == {"a": both, "b": both, "rest": "others."}


def test_functions_themselves_are_read_too() -> None:
    def call(name: str, *, size: int = 3, **rest: Any) -> None:
        """Does something."""

    assert [(one.name, one.hint, one.default) for one in declared(call)] == [("name", str, None), ("size", int, 3)]


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(LookupError, match=r"bathyscope\.runs\.table has no function nothing"):
        declared("bathyscope.runs.table:nothing")
