"""The figure of pairs: the means over prompts, each pair once, in sequential colours."""

from __future__ import annotations

import numpy as np
import pytest
from support import waves, zoo
from support.artists import axes_titled, drawn_from
from support.synthetic import replaced

import bathyscope
from bathyscope.pages.figures.of.pairs import FIGURE


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), (9, 7, 8))
    return bathyscope.survey(waves.loaded("llama"), ids, ["pairs"], progress=False)


def cells(run: bathyscope.Run, title: str) -> np.ma.MaskedArray:
    [image] = axes_titled(drawn_from(FIGURE, run), title).images
    return np.ma.asarray(image.get_array().astype(float))


def test_maps_are_means_over_prompts_of_each_pair_once_and_without_block_0(run: bathyscope.Run) -> None:
    for name, title, diagonal in (
        ("interaction", "Interaction of two blocks", 1),
        ("cost", "Cost of two blocks", 0),
    ):
        values = cells(run, title)
        measured = np.triu(np.ones((5, 5), dtype=bool), diagonal)
        measured[0] = False
        np.testing.assert_array_equal(np.ma.getmaskarray(values), ~measured)
        np.testing.assert_allclose(values[measured], run["pairs"][name].mean("prompt").values[measured])


def test_colours_are_sequential_and_hold_every_value(run: bathyscope.Run) -> None:
    for title in ("Interaction of two blocks", "Cost of two blocks"):
        ax = axes_titled(drawn_from(FIGURE, run), title)
        [image] = ax.images
        low, high = image.get_clim()
        assert low <= min(0.0, cells(run, title).min())
        assert high >= cells(run, title).max()
        assert image.cmap.name == "viridis"


def test_stars_are_the_pairs_whose_interval_leaves_0(run: bathyscope.Run) -> None:
    data = run["pairs"].copy(deep=True)
    data["interaction_low"][:], data["interaction_high"][:] = -1.0, 1.0
    data["interaction_low"][1, 3], data["interaction_high"][2, 4] = 0.5, -0.5
    data["interaction_low"][0, 2] = 0.5  # of block 0, which is not coloured
    ax = axes_titled(drawn_from(FIGURE, replaced(run, "pairs", data)), "Interaction of two blocks")
    (stars,) = [line for line in ax.get_lines() if line.get_label() == "starred"]
    assert list(zip(stars.get_ydata(), stars.get_xdata())) == [(1, 3), (2, 4)]
    [image] = ax.images
    label = image.colorbar.ax.get_xlabel()
    assert "star: its interval leaves 0" in label
    first = run["pairs"]["interaction"].mean("prompt").values[0, 1:]
    assert f"not coloured: with block 0, {first.min():.3g} to {first.max():.3g}".replace("-", "−") in label


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
    expected = np.full((5, 5), np.nan)
    expected[np.ix_([1, 3, 4], [1, 3, 4])] = np.triu(part["pairs"]["cost"].mean("prompt").values)
    values = np.ma.filled(cells(part, "Cost of two blocks"), np.nan)
    np.testing.assert_allclose(values, np.where(np.tri(5, 5, -1), np.nan, np.where(expected == 0, np.nan, expected)))
