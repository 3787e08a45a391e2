from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, caption_of, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.measures.depth_score_levels import level_results
from bathyscope.measures.of.depth_score import DepthScoreOptions
from bathyscope.pages.figures.of.depth_score import FIGURE
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run
from bathyscope.statistics.sampling import Sampling

RUN = complete_run(prompts=9, tokens=6)
DATA = RUN["depth_score"]
HOPS = DATA["hops"].values
TITLES = {"layer": "Depth score by effect on later blocks", "output": "Depth score by effect on the output"}
PER_PROMPT = ["effect", "output_effect", "prompt_score_layer", "prompt_score_output"]


@functools.cache
def drawn() -> Figure:
    return drawn_from(FIGURE, RUN)


def by(label: str | None, **coords: object) -> Run:
    """The run with levels of another label."""
    data = DATA[PER_PROMPT].drop_dims("level", errors="ignore").drop_vars("hops").assign_coords(**coords)
    found = level_results(data, label, DepthScoreOptions(resamples=50, permutations=20), seed=0)
    renamed = {label: f"prompt_{label}"} if label in found.dims else {}
    return replaced(RUN, "depth_score", data.rename(renamed).merge(found))


def dots(ax: Axes) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata()) for line in ax.get_lines() if line.get_marker() == "o"]


def test_the_caption_says_what_diamonds_and_dots_are_reduced_over() -> None:
    """The measure's own scores of levels take the largest effects over tokens, so next to means they are not drawn."""
    effect = DATA["effect"].sel(reduction="max").values[HOPS.min() == HOPS].mean(0)
    by_block = effect.sum(1) / np.maximum(len(effect) - 1 - np.arange(len(effect)), 1)
    centre = float(np.arange(len(effect)) @ by_block / by_block.sum())
    assert float(DATA["score_layer"].sel(reduction="mean")[0]) == pytest.approx(centre)
    for reduction, level, prompt in (
        ("mean", "means of a level's dots", "mean over tokens"),
        ("p95", "means of a level's dots", "95th percentile over tokens"),
        ("max", "levels, from the largest effects over tokens and prompts", "largest over tokens"),
    ):
        note = FIGURE.drawing(RUN, FigureOptions(reduction=reduction)).note  # type: ignore[arg-type]
        assert f"Dots: prompts (effects {prompt}); diamonds: {level};" in note


def test_levels_of_any_name_can_be_told_apart_and_none_acts() -> None:
    names = ["\x1b[31m" + "long " * 2000, "turned\u202eround"]
    run = by("mood", mood=("prompt", np.array([names[0]] * 5 + [names[1]] * 4, dtype=object)))
    ax = axes_titled(drawn_from(FIGURE, run), TITLES["layer"])
    assert [label.get_text() for label in ax.get_xticklabels()] == [r"\x1b[31mlong long l…", r"turned\u202eround"]


def whiskers(ax: Axes) -> np.ndarray:
    (lines,) = [lines for lines in ax.collections if isinstance(lines, LineCollection)]
    return np.array([segment[:, 1] for segment in lines.get_segments()])


@pytest.mark.parametrize("kind", ["layer", "output"])
@pytest.mark.parametrize("reduction", ["max", "mean"])
def test_diamonds_bars_and_dots_are_scores_intervals_and_prompts(kind: str, reduction: str) -> None:
    figure = drawn_from(FIGURE, RUN, FigureOptions(reduction=reduction))  # type: ignore[arg-type]
    ax, own = axes_titled(figure, TITLES[kind]), DATA.sel(reduction=reduction)
    _, scores = curve(ax, "levels")
    if reduction == "max":
        np.testing.assert_array_equal(scores, own[f"score_{kind}"])
        np.testing.assert_array_equal(whiskers(ax)[:, 0], own["ci_low"].sel(score=kind))
        np.testing.assert_array_equal(whiskers(ax)[:, 1], own["ci_high"].sel(score=kind))
    else:
        means = [own[f"prompt_score_{kind}"].values[level == HOPS].mean() for level in (2, 3, 4)]
        np.testing.assert_allclose(scores, means)
        assert (whiskers(ax)[:, 0] < means).all()
        assert (whiskers(ax)[:, 1] > means).all()
    for level, heights in zip((2, 3, 4), dots(ax)):
        np.testing.assert_array_equal(heights, own[f"prompt_score_{kind}"].values[level == HOPS])


def test_levels_stand_on_the_axis_under_the_name_of_their_label() -> None:
    ax = axes_titled(drawn(), TITLES["layer"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "3", "4"]
    assert ax.get_xlabel() == "hops (label of the prompts)"
    assert ax.get_ylabel() == "depth score (block, 0-based index)"


def test_trend_is_a_line_with_slope_interval_p_value_and_effect_size() -> None:
    ax = axes_titled(drawn(), TITLES["output"])
    own = DATA.sel(reduction="mean", score="output")
    _, heights = curve(ax, "trend")
    np.testing.assert_allclose(np.diff(heights), own["trend_slope"].item())
    np.testing.assert_allclose(heights, np.poly1d(np.polyfit(HOPS, own["prompt_score_output"], 1))([2, 3, 4]))
    assert ax.get_title(loc="left") == (
        f"slope {own['trend_slope'].item():.2g} ({own['trend_ci_low'].item():.2g} to "
        f"{own['trend_ci_high'].item():.2g}) block/level, p = {own['trend_p_value'].item():.2g}, "
        f"effect size {own['trend_effect_size'].item():.2g}"
    )


def test_the_band_of_the_line_is_that_of_lines_through_resampled_prompts() -> None:
    own = DATA["prompt_score_output"].sel(reduction="mean").values
    lines = []
    for counts in Sampling(seed=RUN.identity.seed).counts(len(own)):
        if np.unique(HOPS[counts > 0]).size > 1:
            lines.append(np.poly1d(np.polyfit(HOPS, own, 1, w=np.sqrt(counts)))([2, 3, 4]))
    (band,) = bands(axes_titled(drawn(), TITLES["output"]))
    (outline,) = band.get_paths()
    for place, ends in enumerate(np.quantile(lines, [0.025, 0.975], axis=0).T):
        heights = outline.vertices[outline.vertices[:, 0] == place, 1]
        np.testing.assert_allclose((heights.min(), heights.max()), ends, rtol=1e-6)


def test_label_that_made_room_for_the_dimension_is_found() -> None:
    run = by("level", level=("prompt", [5, 1, 1] * 3))
    ax = axes_titled(drawn_from(FIGURE, run), TITLES["layer"])
    assert ax.get_xlabel() == "level (label of the prompts)"
    scores = run["depth_score"]["prompt_score_layer"].sel(reduction="mean").values
    np.testing.assert_array_equal(dots(ax)[1], scores[::3])


def test_prompts_without_the_label_have_no_dot() -> None:
    run = by("steps", steps=("prompt", [1.0, 2.0, np.nan] * 3))
    ax = axes_titled(drawn_from(FIGURE, run), TITLES["layer"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2"]
    assert [len(heights) for heights in dots(ax)] == [3, 3]


@pytest.mark.parametrize("label", [None, "kind"])
def test_levels_without_an_order_have_no_trend(label: str | None) -> None:
    run = by(label, kind=("prompt", np.array(["sum", "$word"] * 4 + ["sum"], dtype=object)))
    ax = axes_titled(drawn_from(FIGURE, run), TITLES["layer"])
    assert ax.get_title(loc="left") == "no trend"
    assert all(line.get_label() != "trend" for line in ax.get_lines())
    names = ["all"] if label is None else ["$word", "sum"]
    assert [text.get_text() for text in ax.get_xticklabels()] == names
    assert "Trend: " in caption_of(FIGURE, run)


def test_missing_intervals_are_told_with_their_levels() -> None:
    run = by("hops", hops=("prompt", [1, 2, 3, 4, 4, 4, 4, 4, 4]))
    assert "1, 2, 3: an interval needs at least two prompts" in caption_of(FIGURE, run)
    assert "interval needs" not in caption_of(FIGURE, RUN)


def test_alternative_text_gives_scores_by_level() -> None:
    panel = FIGURE.panels(RUN, FigureOptions())[0]
    score = DATA["prompt_score_layer"].sel(reduction="mean").values[HOPS == 3].mean()
    assert f"3: {score:.3g} (" in panel.alt


def test_what_has_no_interval_is_said_without_one() -> None:
    """Three levels of a single prompt each; and one prompt that decides the slope alone."""
    run = by("hops", hops=("prompt", [1, 2, 3, 4, 4, 4, 4, 4, 4]))
    assert not any("nan" in panel.alt for panel in FIGURE.panels(run, FigureOptions()))
    alone = by("hops", hops=("prompt", [1, 2, 2, 2, 2, 2, 2, 2, 2]))
    assert np.isnan(alone["depth_score"]["trend_ci_low"]).all()
    text = axes_titled(drawn_from(FIGURE, alone), TITLES["layer"]).get_title(loc="left")
    assert text.startswith("slope ")
    assert "nan" not in text


def test_score_without_any_value_has_no_panel() -> None:
    data = DATA.assign(score_output=DATA["score_output"] * np.nan)
    names = [panel.name for panel in FIGURE.panels(replaced(RUN, "depth_score", data), FigureOptions())]
    assert names == ["layer"]
