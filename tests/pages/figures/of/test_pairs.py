"""The figure of pairs: what is drawn are the means over prompts, in colours that are as far below 0 as above."""

from __future__ import annotations

import numpy as np
import pytest
from support import waves, zoo
from support.artists import axes_titled, drawn_from

import bathyscope
from bathyscope.pages.figures.of.pairs import FIGURE


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), (9, 7, 8))
    return bathyscope.survey(waves.loaded("llama"), ids, ["pairs"], progress=False)


def test_maps_are_means_over_prompts_in_diverging_colours(run: bathyscope.Run) -> None:
    drawn = drawn_from(FIGURE, run)
    for name, title in (("interaction", "Interaction of two blocks"), ("cost", "Cost of two blocks")):
        [image] = axes_titled(drawn, title).images
        wanted = run["pairs"][name].mean("prompt").values
        shown = np.ma.filled(image.get_array().astype(float), np.nan)
        np.testing.assert_allclose(shown, wanted)
        low, high = image.get_clim()
        assert low == -high


def test_the_caption_counts_intervals_on_either_side(run: bathyscope.Run) -> None:
    data = run["pairs"]
    upper = np.triu_indices(5, 1)
    above = int((data["interaction_low"].values[upper] > 0).sum())
    below = int((data["interaction_high"].values[upper] < 0).sum())
    note = FIGURE.drawing(run).note
    assert f"Of 10 pairs the interval over 3 prompts lies above 0 in {above} and below in {below}." in note
    assert "Intervals are not corrected: about 0.5 would exclude 0 by chance" in note


def test_some_blocks_stand_at_their_own_numbers() -> None:
    ids = zoo.prompts(zoo.build("llama"), (9, 7, 8))
    part = bathyscope.survey(waves.loaded("llama"), ids, ["pairs"], pairs={"blocks": [1, 3, 4]}, progress=False)
    [image] = axes_titled(drawn_from(FIGURE, part), "Cost of two blocks").images
    shown = np.ma.filled(image.get_array().astype(float), np.nan)
    wanted = np.full((5, 5), np.nan)
    wanted[np.ix_([1, 3, 4], [1, 3, 4])] = part["pairs"]["cost"].mean("prompt").values
    np.testing.assert_allclose(shown, wanted)
