"""What all results share: the table, its printed forms, the representation, and a picture by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from bathyscope.core import above
from bathyscope.core.result import LabelledResult, Result, TabledResult, TableResult
from bathyscope.core.tables import TextTable
from bathyscope.errors import OptionError
from bathyscope.surgery.plan.plan import Plan

FRAME = pd.DataFrame({"name": ["a", "b"], "cost_low": [0.123456, math.nan]})


@dataclass(frozen=True, repr=False)
class Plain(TabledResult):
    data: xr.Dataset
    text: str = "Two rows."

    def to_dataframe(self) -> pd.DataFrame:
        return FRAME


PLAIN = Plain(xr.Dataset())


@pytest.mark.parametrize("kind", [Plain, Plan])
@pytest.mark.parametrize("data", [None, {"cost": [1.0]}, FRAME])
def test_a_result_of_no_labelled_arrays_is_refused_when_it_is_made(kind: type, data: object) -> None:
    with pytest.raises(OptionError, match=rf"^{kind.__name__}: data takes labelled arrays .* from bathyscope.open"):
        kind(data)


def test_a_result_of_its_own_has_all_parts() -> None:
    assert isinstance(PLAIN, Result)
    assert PLAIN.table is FRAME
    assert PLAIN.record() == [{"name": "a", "cost_low": 0.123456}, {"name": "b", "cost_low": None}]
    assert repr(PLAIN) == "<Plain: Two rows.>"
    [table] = PLAIN.tables()
    assert table.headings == ["name", "cost low"]
    assert table.cells() == [["a", "0.1235"], ["b", "–"]]


def test_a_notebook_shows_the_sentences_and_the_table_with_its_own_names() -> None:
    page = PLAIN._repr_html_()
    assert page.startswith("<p>Two rows.</p><table>")
    assert '<th scope="col">name</th><th scope="col">cost_low</th>' in page
    # what is missing is missing in the same way everywhere
    assert '<th scope="row">a</th><td>0.1235</td>' in page
    assert '<th scope="row">b</th><td>–</td>' in page


def test_letters_that_would_act_are_shown_in_a_representation() -> None:
    assert repr(Plain(xr.Dataset(), "a\x1b[31m")) == "<Plain: a\\x1b[31m>"


def test_a_picture_is_asked_of_the_code_above_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(above._PLACES, "picture", f"{__name__}:drawn")
    assert PLAIN.picture() is None
    assert isinstance(LabelledResult(xr.Dataset(), "", lambda _: FRAME, figure="maps").picture(), Figure)


def drawn(result: TabledResult) -> Figure:
    assert result.figure == "maps"
    return Figure()


def test_a_labelled_result_lays_out_its_own_tables() -> None:
    data = xr.Dataset({"x": ("row", [1.0, 2.0])})
    own = TextTable(["total"], [[3.0]])
    result = LabelledResult(data, "Three.", lambda _: FRAME, lay_out=lambda found: [own] if found is data else [])
    assert result.tables() == [own]
    assert [table.headings for table in LabelledResult(data, "", lambda _: FRAME).tables()] == [["name", "cost low"]]


class Named(TabledResult):
    data = xr.Dataset()

    @property
    def text(self) -> str:
        """Sentences."""
        return "Of m\x1b[31m.\nTwo rows."

    def to_dataframe(self) -> pd.DataFrame:
        return FRAME


def test_letters_that_would_act_are_shown_in_sentences() -> None:
    """Somebody prints them: print(result.text)."""
    said = "Of m\\x1b[31m.\nTwo rows."
    assert Named().text == said
    assert Named.text.__doc__ == "Sentences."
    acting = "Of m\x1b[31m.\nTwo rows."
    assert LabelledResult(xr.Dataset(), acting, lambda data: FRAME).text == said
    assert TableResult(FRAME, acting).text == said
