"""Readings are the estimators of effective depth: the same names, the same numbers, resample by resample."""

from __future__ import annotations

import numpy as np
import pytest
from support.compared import a_run

from bathyscope.analysis.depths.side import sides_of
from bathyscope.statistics.effective_depth import ESTIMATORS, effective_depth
from bathyscope.statistics.sampling import Sampling

CURVES = sides_of([a_run(blocks=12, prompts=5, spread=0.1)])[0]


def test_every_estimator_has_a_reading_of_the_same_ratio() -> None:
    readings, found = CURVES.readings(), effective_depth(CURVES.curves, Sampling(10))
    assert tuple(readings) == tuple(found) == ESTIMATORS
    for name, reading in readings.items():
        ratio = reading.estimate()
        whole = ratio if reading.whole is None else reading.whole(ratio)
        assert whole == pytest.approx(found[name].ratio, abs=1e-12), name
        assert (reading.whole is not None) == (name in ("cosine", "kl", "overlap"))


def test_a_resample_is_the_run_with_prompts_repeated() -> None:
    times = np.array([3, 0, 1, 0, 1])
    repeated = CURVES.where(np.ones(5, dtype=bool), "all")
    curves = {
        name: np.repeat(value, times, axis=0) for name, value in vars(repeated.curves).items() if value is not None
    }
    wanted = effective_depth(type(repeated.curves)(**curves), Sampling(10))
    for name, reading in CURVES.readings().items():
        (ratio,) = reading.estimate(times[None])
        whole = ratio if reading.whole is None else reading.whole(ratio)
        assert whole == pytest.approx(wanted[name].ratio, abs=1e-9), name


def test_limits_hold_every_ratio_there_can_be() -> None:
    readings = CURVES.readings()
    assert readings["kl"].limits == (0, 11 / 12)
    assert readings["prediction"].limits == (0, 1)
    # from the middle of the first block to that of the last
    assert readings["centre_of_mass"].limits == (0.5 / 12, 11.5 / 12)
