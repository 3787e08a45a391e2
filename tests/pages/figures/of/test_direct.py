from __future__ import annotations

import numpy as np
import pytest
from support.artists import axes_titled, caption_of, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.direct import FIGURE
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.statistics.influence import influence_given

RUN = complete_run(tokens=6)
DATA = RUN["direct"]
UPPER = np.triu(np.ones((12, 12), dtype=bool), 1)


@pytest.mark.parametrize(("reach", "tokens"), [("all", "all"), ("future", "later")])
def test_cells_are_means_over_prompts_and_the_rest_is_blank(reach: str, tokens: str) -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN, panels=[reach]), f"Direct effect on {tokens} tokens")
    values = np.ma.asarray(ax.get_images()[0].get_array())
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~UPPER)
    np.testing.assert_allclose(values[UPPER], DATA[f"effect_{reach}"].values[:, 0].mean(0)[UPPER])


def test_the_profile_is_the_mean_of_each_row() -> None:
    (profile,) = [
        ax for ax in drawn_from(FIGURE, RUN, panels=["all"]).axes if ax.get_xlabel().startswith("mean of the row")
    ]
    (line,) = profile.get_lines()
    rows = influence_given(DATA["effect_all"].values[:, 0]).mean(0)
    np.testing.assert_allclose(line.get_xdata(), rows)


def test_prompts_too_short_are_counted() -> None:
    data = DATA.copy(deep=True)
    data["effect_future"][:2] = np.nan
    assert "4 of 6 prompts were long enough" in caption_of(FIGURE, replaced(RUN, "direct", data))
    assert "long enough" not in caption_of(FIGURE, RUN)


def test_caption_says_that_nothing_else_changes() -> None:
    assert "nothing else changes" in caption_of(FIGURE, RUN)
    assert "mean over tokens and prompts" in caption_of(FIGURE, RUN, FigureOptions(reduction="mean"))
