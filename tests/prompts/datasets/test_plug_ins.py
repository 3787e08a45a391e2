"""Data sets of other packages, declared by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from bathyscope.core import plug_ins
from bathyscope.errors import PromptError
from bathyscope.prompts import datasets
from bathyscope.prompts.datasets.dataset import DataSet, filled_text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import resolve


def to_prompt(row: Row) -> Prompt:
    answer = filled_text_of(row, "capital")
    return Prompt(text=f"The capital of {row['country']} is {answer}", answer=answer, labels={"level": 1})


CAPITALS = DataSet("capitals", None, None, None, ("country", "capital"), to_prompt, "an atlas", origin="an atlas")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Declares data sets as installed packages do; what they name stands in the module ``atlas``."""
    module = ModuleType("atlas")
    module.CAPITALS = CAPITALS  # type: ignore[attr-defined]
    module.made = lambda: CAPITALS  # type: ignore[attr-defined]
    module.Renamed = lambda: replace(CAPITALS, name="rivers")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "atlas", module)

    def declare(**values: str) -> None:
        points = [EntryPoint(name, value, datasets.GROUP) for name, value in values.items()]
        monkeypatch.setattr(plug_ins, "entry_points", lambda group: points)
        for cached in (datasets._entry_points, datasets._plugged_in):
            cached.cache_clear()

    yield declare
    for cached in (datasets._entry_points, datasets._plugged_in):
        cached.cache_clear()


@pytest.mark.parametrize("value", ["atlas:CAPITALS", "atlas:made"])
def test_a_data_set_of_another_package_is_a_source(
    installed: Callable[..., None], write_jsonl: Callable[..., str], value: str
) -> None:
    installed(capitals=value)
    rows = write_jsonl({"country": "France", "capital": "Paris"}, {"country": "Chad", "capital": "N'Djamena"})
    found = resolve(f"capitals:2@{rows}")
    assert (found.dataset, found.is_data_set) == ("capitals:2", True)
    assert [prompt.answer for prompt in found.prompts] == ["Paris", "N'Djamena"]
    with pytest.raises(PromptError, match=r"Did you mean 'capitals'\? Allowed: .*two_hop, capitals, problems"):
        resolve("capitels:2")
    with pytest.raises(PromptError, match="capitals is not on the hub; take an atlas and give it as a local file"):
        resolve("capitals:2")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_atlas:CAPITALS", "ModuleNotFoundError: No module named 'no_such_atlas'"),
        ("atlas:Renamed", "TypeError: a DataSet called 'capitals' is expected, and one called 'rivers' was given"),
        ("json:dumps", "TypeError"),
    ],
)
def test_one_that_cannot_be_used_says_its_name_and_stops_nothing_else(
    installed: Callable[..., None], write_jsonl: Callable[..., str], value: str, reason: str
) -> None:
    installed(capitals=value)
    assert len(resolve("addition:2")) == 2
    with (
        pytest.warns(UserWarning, match=rf"The data set of the plug-in capitals \({value}\) cannot be used, {reason}"),
        pytest.raises(PromptError, match="'capitals' is neither a data set nor a prompt file"),
    ):
        resolve("capitals:2")


def test_the_packages_own_keep_their_names(installed: Callable[..., None], write_jsonl: Callable[..., str]) -> None:
    installed(gsm8k="atlas:CAPITALS")
    assert resolve(f"gsm8k@{write_jsonl({'question': '1 + 1?', 'answer': 'Add. #### 2'})}").prompts[0].answer == "2"
    assert datasets.names().count("gsm8k") == 1
