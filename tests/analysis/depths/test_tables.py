"""The comparison as a table: the numbers as a reader sees them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.compared import a_run

import bathyscope
from bathyscope.analysis.depths import Comparison
from bathyscope.analysis.depths.tables import difference_table, remarks, title
from bathyscope.core.estimates import write_signed
from bathyscope.runs.depth_table import estimator_name

FOUND = bathyscope.compare([a_run(model="own/one"), a_run(model="own/two", shift=0.12, uneven=0.02)], resamples=400)


def written(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    table = difference_table(comparison, 0)
    return list(table.headings), table.cells()


def test_a_row_says_what_the_arrays_say() -> None:
    headings, rows = written(FOUND)
    row = next(row for row in rows if row[0] == estimator_name("settle"))
    cells = dict(zip(headings, row, strict=True))
    settle = FOUND.data.sel(estimator="settle").isel(comparison=0)
    assert cells["Reference"] == f"{settle['reference_ratio'].item():.3f}"
    shifts = 0.12 * (1 + 0.02 * np.arange(6))
    assert cells["Difference"] == f"+{shifts.mean():.3f}"
    assert cells["95% interval"] == f"+{settle['ci_low'].item():.3f} to +{settle['ci_high'].item():.3f}"
    assert cells["Blocks"] == "+1.3"
    assert cells["> 0"] == "100%"
    assert float(cells["d"]) == pytest.approx(shifts.mean() / shifts.std(ddof=1), rel=0.05)
    assert float(cells["p"]) == pytest.approx(1 / 401, abs=5e-4)
    whole = next(row for row in rows if row[0] == "KL")
    assert dict(zip(headings, whole))["p"] == "–"


def test_the_title_counts_the_prompts() -> None:
    assert title(FOUND.data.isel(comparison=0)) == "two − one: paired, 6 prompts"


def test_models_of_other_sizes_have_no_column_of_blocks() -> None:
    found = bathyscope.compare([a_run(), a_run(model="own/b", blocks=20)], resamples=50)
    headings, rows = written(found)
    assert "Blocks" not in headings
    assert {len(row) for row in rows} == {len(headings)}
    slope = bathyscope.compare([a_run(), a_run(model="own/b", blocks=20)], question="size", resamples=50)
    assert "Slope" in written(slope)[0]


def test_missing_differences_are_remarks_and_no_rows() -> None:
    found = bathyscope.compare([a_run(model="[bold]/one"), a_run(model="own/late", shift=3)], resamples=50)
    shown = [row[0] for row in written(found)[1]]
    assert "KL" not in shown
    [said] = [text for text in remarks(found.data.isel(comparison=0)) if "KL never falls" in text]
    assert said.startswith("KL; KL, interpolated: ")


def test_signs() -> None:
    assert [write_signed(v) for v in (0.1254, -0.25, 0.0, -0.0001, math.nan)] == [
        "+0.125",
        "−0.250",
        "0.000",
        "0.000",
        "–",
    ]
    assert write_signed(np.float64(-1.25), 1) == "−1.2"
