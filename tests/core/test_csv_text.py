"""CSV: exact as it is asked for by itself, and without a cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bathyscope.core.csv_text import csv_text, written_safely

SOURCE = Path(__file__).parents[2] / "src" / "bathyscope"
BEGINNINGS = "=+-@\t\r\n＝＋－＠"
TEXTS = st.text("=+-@\t\n＝＋－＠'\",;a1 ", max_size=6) | st.text(
    max_size=5, alphabet=st.characters(codec="utf-8", exclude_characters="\0\r")
)


def cells(frame: pd.DataFrame) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(frame), newline="")))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, st.floats(allow_nan=False) | st.integers(-(2**40), 2**40)), min_size=1, max_size=4), TEXTS
)
@example([("=HYPERLINK(1)", -1.5)], "+name")
def test_no_text_begins_a_formula_and_numbers_stay_numbers(rows: list[tuple[str, float]], heading: str) -> None:
    frame = pd.DataFrame(
        {heading: [text for text, _ in rows], "a number": [number for _, number in rows]}, dtype=object
    )
    exact = cells(frame)
    with written_safely():
        safe = cells(frame)
    assert exact == cells(frame)
    assert exact[0] == [heading, "a number"]
    assert [row[0] for row in exact[1:]] == [text for text, _ in rows]
    for text, quoted in zip([row[0] for row in exact], [row[0] for row in safe], strict=True):
        assert not quoted or quoted[0] not in BEGINNINGS
        assert quoted == (f"'{text}" if text and text[0] in BEGINNINGS else text)
    assert [row[1] for row in safe] == [row[1] for row in exact]
    assert [float(row[1]) for row in safe[1:]] == [float(number) for _, number in rows]


def test_missing_values_are_empty_in_both() -> None:
    frame = pd.DataFrame([{"a": None, "b": float("nan"), "c": "x"}], dtype=object)
    with written_safely():
        assert cells(frame) == [["a", "b", "c"], ["", "", "x"]]
    assert cells(frame) == [["a", "b", "c"], ["", "", "x"]]


def test_all_csv_of_the_program_is_made_here() -> None:
    made = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"to_csv\(|csv\.writer", path.read_text())
    ]
    assert made == ["core/csv_text.py"]
