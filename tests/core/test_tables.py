"""A table is said once: its values become text in one place, whoever prints them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bathyscope.core.estimates import Estimate
from bathyscope.core.tables import (
    THREE_DIGITS,
    TextTable,
    frame_table,
    html_cells,
    html_table,
    markdown_of,
    markdown_table,
)

ROW = ["choice", 12345, -0.012345, Estimate(-0.5, -1.0, 0.25), None, math.nan, True]
HEADINGS = ["name", "count", "number", "estimate", "none", "nan", "truth"]


def cell(value: Any, form: Any = None, **how: Any) -> str:
    table = TextTable(["x"], [[value]], forms={} if form is None else {"x": form})
    [[text]] = table.cells(**how)
    return text


def test_a_column_has_its_form_and_a_missing_value_is_a_dash() -> None:
    table = TextTable(HEADINGS, [ROW], forms={"number": "+.3f", "estimate": ".1f", "none": ".1f", "nan": ".1f"})
    assert table.cells() == [["choice", "12,345", "-0.012", "-0.5 (-1.0 to 0.2)", "–", "–", "True"]]


def test_without_a_form_numbers_are_written_as_is_usual_where_they_are_read() -> None:
    assert TextTable(HEADINGS, [ROW]).cells(THREE_DIGITS) == [
        ["choice", "12345", "-0.0123", "-0.5 (-1 to 0.25)", "–", "–", "True"]
    ]
    assert [cell(value) for value in (12345.0, 0.123456, np.float64(2.5), np.int64(4000))] == [
        *("12,345", "0.1235", "2.5", "4,000"),
    ]


@pytest.mark.parametrize("value", [0, 3, np.int64(3), 3.0, np.float32(3.0)])
def test_a_form_is_of_whole_numbers_too(value: Any) -> None:
    assert cell(value, ".1f") == f"{float(value):.1f}"


def test_pages_write_minus_signs_in_numbers_and_leave_texts_as_they_are() -> None:
    words = "a token -5"
    table = TextTable(["text", "number", "estimate"], [[words, -5.5, Estimate(-1.0, -2.0, 3.0)]])
    assert html_cells(table) == [[words, "−5.5", "−1 (−2 to 3)"]]
    assert table.cells() == [[words, "-5.5", "-1 (-2 to 3)"]]


def test_letters_that_would_act_are_shown() -> None:
    assert cell("\x1b[31m") == "\\x1b[31m"


def test_the_columns_of_a_frame_are_headings_without_underscores() -> None:
    table = frame_table(pd.DataFrame({"left_out": ["drop:1"], "cost": [0.25]}), "A title")
    assert (table.headings, table.title, table.cells()) == (["left out", "cost"], "A title", [["drop:1", "0.25"]])


def test_a_missing_whole_number_of_a_frame_is_a_dash() -> None:
    frame = pd.DataFrame({"n": pd.array([1000, None], dtype="Int64"), "x": [None, 0.5]})
    assert frame_table(frame).cells() == [["1,000", "–"], ["–", "0.5"]]
    assert frame_table(frame).cells(THREE_DIGITS) == [["1000", "–"], ["–", "0.5"]]


def test_markdown_has_titles_and_captions_and_nothing_in_it_acts() -> None:
    tables = [TextTable(["a|b"], [["<b>"]], "First *title*", ["A caption."]), TextTable(["x"], [[0.5]])]
    assert markdown_of(tables) == [
        *("", r"**First \*title\***", "", r"| a\|b |", "|---|", "| &lt;b&gt; |", "", "A caption."),
        *("", "| x |", "|---|", "| 0.5 |"),
    ]


def test_a_row_of_another_length_than_the_headings_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="shorter"):
        TextTable(["a", "b"], [[1]]).cells()


def test_a_cell_of_a_markdown_table_stays_in_it() -> None:
    assert markdown_table(["", "n|"], [["drop:1|<b>", 3], ["a\nb", None]]) == [
        r"|  | n\| |",
        "|---|---|",
        r"| drop:1\|&lt;b&gt; | 3 |",
        r"| a\\nb | None |",
    ]


def test_a_table_in_html_has_headings_and_names_of_rows_and_nothing_in_it_acts() -> None:
    rows = [["<b>&", 3, "\u202e'"], ["long" * 30, None, "x"], ["third", 1, 2]]
    assert html_table(["name", "n", "<i>"], rows[:1], kind="numbers") == (
        '<table class="numbers">\n<thead><tr><th scope="col">name</th><th scope="col">n</th>'
        '<th scope="col">&lt;i&gt;</th></tr></thead>\n<tbody>\n<tr><th scope="row">&lt;b&gt;&amp;</th><td>3</td>'
        "<td>\\u202e&#x27;</td></tr>\n</tbody>\n</table>"
    )
    cut = html_table([], rows, most=2, letters=80)
    assert "<thead>" not in cut
    assert f'<th scope="row">{("long" * 30)[:79]}…</th>' in cut
    assert cut.endswith("</table><p>… and 1 more.</p>")
    assert "third" not in cut
    assert "more" not in html_table([], rows)
