"""Every sentence of a comparison against its numbers, where readings are missing, equal, certain or of one prompt."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from support.compared import a_run
from support.synthetic import replaced

from bathyscope.analysis.depths import Comparison, compare
from bathyscope.analysis.depths import tables as table
from bathyscope.errors import OptionError
from bathyscope.pages.comparison import forest
from bathyscope.runs.depth_table import estimator_name
from bathyscope.runs.run import Run

NUMBER = r"[+−]?\d\.\d{3}"


def altered(run: Run, how: str) -> Run:
    """The run with some of its readings missing."""
    if how == "whole":
        return run
    lens = run["lens"].copy(deep=True)
    if how == "no lens":
        lens = lens * np.nan
    if how == "one token depth":
        lens["prediction_depth"][1:] = np.nan
    return replaced(run, "lens", lens)


GRID = list(product((0.0, 0.02, 0.3), (1, 2, 6), ("whole", "no lens", "one token depth"), (0.0, 0.05)))


@pytest.mark.parametrize("part", range(3))
def test_no_sentence_says_what_its_numbers_do_not(part: int) -> None:
    refusals = []
    for shift, prompts, how, spread in GRID[part::3]:
        runs = [
            altered(a_run(shift=by, prompts=prompts, spread=spread, model=f"m{n}"), how)
            for n, by in enumerate((0.0, shift))
        ]
        try:
            comparison = compare(runs, resamples=50)
        except OptionError as error:
            refusals.append(str(error))
            continue
        check(comparison)
    assert "nan" not in " ".join(refusals).lower()


def check(comparison: Comparison) -> None:
    data = comparison.data.isel(comparison=0)
    tabled = table.difference_table(comparison, 0)
    headings, rows = tabled.headings, tabled.cells()
    panels = forest.drawing(comparison).panels
    words = [
        comparison.summary(),
        table.title(data),
        *table.remarks(data),
        *headings,
        *(cell for row in rows for cell in row),
    ]
    words += [forest.drawing(comparison).note, *(panel.alt for panel in panels)]
    for said in words:
        assert not re.search(r"\bnan\b|None|\(\)|– to –", said), said
    low, high, tested = data["ci_low"].values, data["ci_high"].values, np.isfinite(data["p_value"].values)
    clear = (low > 0) | (high < 0)
    counted = re.match(r"(\d+) of (\d+) (tested )?intervals exclude 0", comparison.summary())
    if counted is None:
        assert comparison.summary() == "No estimator has a difference with an interval."
        assert not np.isfinite(low).any()
    else:
        chosen = tested if counted[3] else np.isfinite(low)
        assert (int(counted[1]), int(counted[2])) == (int(clear[chosen].sum()), int(chosen.sum()))
    for number, name in enumerate(data["estimator"].values):
        estimate = float(data["difference"][number])
        row = next((row for row in rows if row[0] == estimator_name(str(name))), None)
        assert (row is None) == np.isnan(estimate)
        if row is None:
            continue
        (alt,) = [panel.alt for panel in panels]
        found = re.search(rf"{re.escape(row[0])} ({NUMBER})( \({NUMBER} to {NUMBER}\))?(?=[;.])", alt)
        assert found is not None, alt
        assert float(found[1].replace("−", "-")) == pytest.approx(estimate, abs=5.1e-4)
        assert (found[2] is None) == np.isnan(low[number])
        interval = row[headings.index("95% interval")]
        assert (interval == "–") == np.isnan(low[number])
