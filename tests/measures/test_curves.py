"""Effective depths of stored runs: one scale, whatever a run of before held, and back to the published numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import xarray as xr

from bathyscope.measures.curves import as_published, in_blocks_done

NAMES = ["cosine", "kl", "interpolated_cosine", "settle", "centre_of_mass"]
INDEX = np.array([4.0, 12.0, 4.25, 12.0, 5.5])
OFFSET = np.array([1.0, 0.0, 0.5, 0.0, 0.5])


def stored(**values: np.ndarray) -> xr.Dataset:
    given = {"depth": INDEX, "ratio": (INDEX + 1) / 12, "ci_low": INDEX - 1, "ci_high": INDEX + 0.25, **values}
    data = {name: ("estimator", found) for name, found in given.items()}
    return xr.Dataset(data, {"estimator": NAMES}, {"n_blocks": 12})


def test_a_run_of_before_is_read_on_the_scale_of_today() -> None:
    found = in_blocks_done(stored())
    np.testing.assert_array_equal(found.depth, INDEX + OFFSET)
    np.testing.assert_array_equal(found["index"], INDEX)
    np.testing.assert_array_equal(found.ci_low, INDEX - 1 + OFFSET)
    np.testing.assert_array_equal(found.ratio, (INDEX + OFFSET) / 12)
    assert float(found.ratio.max()) == 1
    xr.testing.assert_identical(in_blocks_done(found), found)


def test_published_numbers_are_the_criteria_s_own() -> None:
    for run in (stored(), in_blocks_done(stored())):
        found = as_published(run)
        np.testing.assert_allclose(found.depth, INDEX)
        np.testing.assert_allclose(found.ci_high, INDEX + 0.25)


def test_comparing_needs_no_torch() -> None:
    code = "import sys, bathyscope.analysis.depths, bathyscope.runs.depth_table; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
