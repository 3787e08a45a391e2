from __future__ import annotations

import numpy as np
import pytest
from support.artists import axes_titled, visible_texts
from support.synthetic import replaced, synthetic_run

from bathyscope.errors import OptionError
from bathyscope.report.figures import effective_depth

RUN = synthetic_run()
DATA = RUN["effective_depth"]


def test_dots_and_whiskers_are_the_estimates() -> None:
    ax = axes_titled(effective_depth.draw(RUN), "Effective depth")
    drawn = {}
    for line in ax.get_lines():
        row = float(np.atleast_1d(line.get_ydata())[0])
        drawn.setdefault(row, []).append(tuple(np.atleast_1d(line.get_xdata())))
    expected = {
        float(row): [
            (float(one["ci_low"]), float(one["ci_high"])),
            (float(one["depth"]),),
        ]
        for row, one in enumerate(DATA.sel(estimator=name) for name in DATA["estimator"].values)
        if np.isfinite(one["depth"])
    }
    assert drawn == expected
    assert len(drawn) == 6


def test_missing_estimate_is_said_in_picture_and_caption() -> None:
    figure = effective_depth.draw(RUN)
    assert "no estimate" in [text for text, _ in visible_texts(figure)]
    assert "Cosine, interpolated: the mean cosine is positive at every block." in effective_depth.caption(RUN)


def test_estimators_with_one_reason_share_a_sentence() -> None:
    data = DATA.copy(deep=True)
    data["reason"][:] = "an interval needs at least two prompts"
    said = effective_depth.caption(replaced(RUN, "effective_depth", data))
    assert said.count("an interval needs at least two prompts") == 1


def test_estimate_without_interval_has_no_whisker() -> None:
    data = DATA.copy(deep=True)
    data["ci_low"][:], data["ci_high"][:] = np.nan, np.nan
    ax = axes_titled(effective_depth.draw(replaced(RUN, "effective_depth", data)), "Effective depth")
    assert [len(line.get_xdata()) for line in ax.get_lines()] == [1] * 6


def test_axis_spans_all_blocks() -> None:
    low, high = axes_titled(effective_depth.draw(RUN), "Effective depth").get_xlim()
    assert low < 0
    assert 11 < high < 12.5


def test_level_of_the_intervals_is_the_one_asked_for() -> None:
    run = replaced(RUN, "effective_depth", DATA.assign_attrs(level=0.8))
    assert "80% bootstrap intervals" in effective_depth.caption(run)


def test_no_estimate_at_all_is_an_error() -> None:
    data = DATA.copy(deep=True)
    data["depth"][:] = np.nan
    with pytest.raises(OptionError, match="has nothing to show"):
        effective_depth.draw(replaced(RUN, "effective_depth", data))
