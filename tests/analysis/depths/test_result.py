"""Correction for multiple tests."""

from __future__ import annotations

import numpy as np

from bathyscope.analysis.depths.result import holm


def test_the_correction_is_holms_step_by_step() -> None:
    """The smallest of n p-values times n, the next times n − 1, none below the one before it and none above 1."""
    p = np.array([0.02, 0.9, np.nan, 0.001, 0.02, 0.6, 0.015])
    wanted, last = np.full(p.size, np.nan), 0.0
    for place, times in zip(np.argsort(p), (6, 5, 4, 3, 2, 1)):
        last = wanted[place] = min(1.0, max(last, times * p[place]))
    np.testing.assert_allclose(holm(p), wanted)
    assert np.isnan(holm(np.full(3, np.nan))).all()
