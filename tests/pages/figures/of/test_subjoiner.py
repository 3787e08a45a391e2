from __future__ import annotations

import functools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from support.artists import axes_titled, visible_texts

from bathyscope.pages.figures.of import subjoiner

BLOCKS, HEADS, RANKS = 3, 4, 5


@functools.cache
def found() -> xr.Dataset:
    draw = np.random.default_rng(0)
    score = draw.uniform(-0.4, 0.6, (BLOCKS, HEADS))
    score[1] = np.nan
    order = np.argsort(-score, axis=None)[:RANKS]
    blocks, heads = np.unravel_index(order, score.shape)
    top = score.ravel()[order]
    variables = {
        "score": (("block", "head"), score),
        "top_block": ("rank", blocks),
        "top_head": ("rank", heads),
        "top_score": ("rank", top),
        "ci_low": ("rank", top - 0.1),
        "ci_high": ("rank", top + 0.05),
    }
    kinds = {"split": ("word", np.arange(20) < 12), "held_out": ("word", np.arange(20) % 2 == 1)}
    attrs = {"model": "example/model-3", "pieces": 4, "level": 0.9}
    return xr.Dataset(variables, {"rank": np.arange(RANKS), **kinds}, attrs)


@functools.cache
def drawn() -> Figure:
    return subjoiner.drawing(found()).alone()


def test_the_map_holds_the_scores_of_all_heads_symmetric_around_zero() -> None:
    (image,) = axes_titled(drawn(), "Sub-joiner heads").get_images()
    np.testing.assert_array_equal(image.get_array().filled(np.nan), found()["score"].values)
    high = np.nanmax(np.abs(found()["score"].values))
    assert image.get_clim() == (-high, high)
    assert image.colorbar.ax.get_xlabel() == "sub-joiner score (dimensionless)"


def test_ranked_heads_have_names_scores_and_bars() -> None:
    ax = axes_titled(drawn(), "Heads of the highest ranks")
    dots = np.concatenate([line.get_xydata() for line in ax.get_lines() if line.get_marker() == "o"])
    np.testing.assert_array_equal(dots[:, 0], found()["top_score"].values)
    np.testing.assert_array_equal(dots[:, 1], range(RANKS))
    bars = [line.get_xydata() for line in ax.get_lines() if line.get_alpha()]
    np.testing.assert_allclose(np.array(bars)[:, :, 0], np.stack([found()["ci_low"], found()["ci_high"]], 1))
    np.testing.assert_array_equal(np.array(bars)[:, :, 1], np.stack([dots[:, 1]] * 2, 1))
    block, head = int(found()["top_block"][0]), int(found()["top_head"][0])
    assert ax.get_yticklabels()[0].get_text() == f"block {block}, head {head}"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first rank on top


def test_caption_says_what_is_compared_on_how_many_words() -> None:
    said = subjoiner.drawing(found()).note
    for part in ("example/model-3", "3 tokens before it", "6 words of 4 tokens, 4 of one", "90% bootstrap"):
        assert part in said
    heading = next(text for text, _ in visible_texts(drawn()) if text.startswith("example/model-3"))
    assert heading.replace("\n", " ") == said


def test_who_cannot_see_the_figure_is_told_the_values() -> None:
    heads, top = subjoiner.drawing(found()).panels
    assert heads.alt.startswith("Heat map of 3 blocks by 4 heads.")
    assert f"{float(found()['top_score'][0]):.3g}" in top.alt
