from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, to_hex
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, caption_of, curve, drawn_from, laid_out_from
from support.synthetic import replaced, synthetic_run

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.of.skip import FIGURE
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.influence import influence_given, influence_received
from bathyscope.statistics.sampling import Sampling

RUN = synthetic_run()
DATA = RUN["skip"]
UPPER = np.triu(np.ones((12, 12), dtype=bool), 1)


@functools.cache
def drawn() -> Figure:
    return drawn_from(FIGURE, RUN)


def shown(ax: Axes) -> np.ma.MaskedArray:
    (image,) = ax.get_images()
    return np.ma.asarray(image.get_array())


def output_profile(figure: Figure, number: int) -> np.ndarray:
    profiles = [ax for ax in figure.axes if ax.get_xlabel().startswith("output change")]
    (line,) = profiles[number].get_lines()
    np.testing.assert_array_equal(line.get_ydata(), range(12))
    return np.asarray(line.get_xdata())


def with_effect(run: Run, name: str, at: tuple[int, int] | None, value: float) -> Run:
    data = run["skip"].copy(deep=True)
    where = {} if at is None else {"skipped": at[0], "block": at[1]}
    data[name][where] = value
    return replaced(run, "skip", data)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Skipping one block: effect on all", "effect_all"),
        ("Skipping one block: effect on later", "effect_future"),
    ],
)
@pytest.mark.parametrize("reduction", ["max", "mean", "p95"])
def test_cells_are_the_values(title: str, name: str, reduction: str) -> None:
    values = shown(axes_titled(drawn_from(FIGURE, RUN, FigureOptions(reduction=reduction), panels=[name[7:]]), title))
    per_prompt = DATA[name].values[:, 0, ["mean", "p95", "max"].index(reduction)]
    expected = per_prompt.max(0) if reduction == "max" else per_prompt.mean(0)
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~UPPER)
    np.testing.assert_allclose(values[UPPER], expected[UPPER])


def test_the_profile_next_to_a_map_is_the_output_change_with_its_interval() -> None:
    figure = drawn()
    for number, name in enumerate(["output_all", "output_future"]):
        np.testing.assert_allclose(output_profile(figure, number), DATA[name].values[:, 0, 0].mean(0))
    first = next(ax for ax in figure.axes if ax.get_xlabel().startswith("output change"))
    ends = np.array([segment[:, 0] for segment in first.collections[0].get_segments()])
    intervals = mean_intervals(DATA["output_all"].values[:, 0, 0], Sampling(seed=RUN.identity.seed))
    np.testing.assert_allclose(ends, np.array(intervals))


def test_the_mean_is_the_default_and_the_maximum_that_of_the_papers_presets() -> None:
    paper = Run(RUN.tree, {**RUN.manifest, "identity": {**RUN.manifest["identity"], "preset": "csordas2025"}})
    other = Run(RUN.tree, {**RUN.manifest, "identity": {**RUN.manifest["identity"], "preset": "lad2024"}})
    for run, place, over in ((RUN, 0, np.mean), (other, 0, np.mean), (paper, 2, np.max)):
        values = shown(axes_titled(drawn_from(FIGURE, run, panels=["all"]), "Skipping one block: effect on all"))
        np.testing.assert_allclose(values[UPPER], over(DATA["effect_all"].values[:, 0, place], axis=0)[UPPER])
    profile = output_profile(drawn_from(FIGURE, paper, panels=["all"]), 0)
    np.testing.assert_allclose(profile, DATA["output_all"].values[:, 0, 2].max(0))


def test_one_block_that_outweighs_all_others_makes_the_scale_logarithmic() -> None:
    data = DATA.copy(deep=True)
    data["effect_all"][..., 0, :] *= 100
    data["output_all"][..., 0] *= 30
    figure = drawn_from(FIGURE, replaced(RUN, "skip", data), panels=["all"])
    (image,) = axes_titled(figure, "Skipping one block: effect on all").get_images()
    assert isinstance(image.norm, LogNorm)
    (profile,) = [ax for ax in figure.axes if ax.get_xlabel().startswith("output change")]
    assert profile.get_xscale() == "log"
    assert "log" in profile.get_xlabel()
    assert not any(isinstance(ax.get_images()[0].norm, LogNorm) for ax in drawn().axes if ax.get_images())


def test_a_change_of_the_output_that_is_known_as_a_mean_alone_is_drawn_as_one() -> None:
    """As a survey leaves it that reads only some tokens."""
    data = RUN["skip"].copy(deep=True)
    for name in ("output_all", "output_future"):
        data[name].loc[{"reduction": ["p95", "max"]}] = np.nan
    run = replaced(RUN, "skip", data)
    largest = FigureOptions(reduction="max")
    figure = drawn_from(FIGURE, run, largest, panels=["all", "future"])
    for number, name in enumerate(("output_all", "output_future")):
        np.testing.assert_allclose(output_profile(figure, number), DATA[name].values[:, 0, 0].mean(0))
    made = FIGURE.drawing(run, largest)
    assert not any("was not measured" in panel.alt for panel in made.panels)
    assert {"output_all", "output_future"} <= {panel.name for panel in made.panels}
    assert "Change of the output: mean over tokens and prompts, the only reduction that was measured." in made.note
    assert "the only reduction that was measured" not in FIGURE.drawing(RUN, largest).note


def test_attention_keeps_its_own_block_visible() -> None:
    figure = drawn_from(FIGURE, synthetic_run(parts=("block", "attention")), panels=["attention_all"])
    values = shown(axes_titled(figure, "Skipping one block's attention: effect on all"))
    np.testing.assert_array_equal(np.ma.getmaskarray(values), np.tril(np.ones((12, 12), dtype=bool), -1))


def test_colour_bars_have_label_unit_and_reduction() -> None:
    figure = drawn_from(FIGURE, RUN, FigureOptions(reduction="mean"))
    labels = [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel().startswith("relative change")]
    assert [label[label.index("(") :] for label in labels] == [
        "(dimensionless, linear scale; mean over tokens and prompts)",
        "(dimensionless, linear scale; mean over tokens and prompts)",
        "(dimensionless, linear scale; mean over tokens)",
        "(dimensionless, linear scale; mean over tokens)",
    ]


def test_outlier_is_clipped_marked_and_told() -> None:
    run = with_effect(synthetic_run(L=40), "effect_all", (0, 39), 900.0)
    (image,) = axes_titled(drawn_from(FIGURE, run, panels=["all"]), "Skipping").get_images()
    assert image.norm.vmax < 10
    assert image.colorbar.extend == "max"
    assert to_hex(image.cmap(image.norm(900.0))) == style.CLIPPED
    assert "1 of 780 cells above" not in caption_of(FIGURE, RUN)
    assert "(largest 900) are drawn in magenta" in caption_of(FIGURE, run)


def test_ordinary_values_are_not_clipped() -> None:
    figure = drawn_from(FIGURE, RUN, panels=["all"])
    (image,) = axes_titled(figure, "Skipping one block: effect on all").get_images()
    assert image.norm.vmax == DATA["effect_all"].values[:, 0, 0].mean(0)[UPPER].max()
    assert image.colorbar.extend == "neither"


def test_logarithmic_colours_on_request() -> None:
    figure = drawn_from(FIGURE, RUN, FigureOptions(scale="log"), panels=["all"])
    (image,) = axes_titled(figure, "Skipping one block: effect on all").get_images()
    assert isinstance(image.norm, LogNorm)
    assert any("log scale" in ax.get_xlabel() for ax in figure.axes)


@pytest.mark.parametrize(("value", "scale"), [(0.0, "log"), (0.0, "linear"), (0.25, "log")])
def test_all_effects_equal_or_zero_can_be_drawn(value: float, scale: str) -> None:
    run = with_effect(RUN, "effect_all", None, value)
    figure = laid_out_from(FIGURE, run, FigureOptions(scale=scale), panels=["all"])
    assert np.isfinite(shown(axes_titled(figure, "Skipping")).compressed()).all()


def test_row_that_was_not_measured_is_hatched_and_told() -> None:
    data = DATA.copy(deep=True)
    data["effect_all"][:, :, :, 4] = np.nan
    run = replaced(RUN, "skip", data)
    ax = axes_titled(drawn_from(FIGURE, run, panels=["all"]), "Skipping one block: effect on all")
    (hatched,) = [patch for patch in ax.patches if patch.get_hatch()]
    assert (hatched.get_y(), hatched.get_height()) == (3.5, 1.0)
    assert "hatched rows (4) were not measured" in caption_of(FIGURE, run)


def test_prompts_too_short_are_left_out_and_counted() -> None:
    data = DATA.copy(deep=True)
    data["effect_future"][:2] = np.nan
    run = replaced(RUN, "skip", data)
    values = shown(axes_titled(drawn_from(FIGURE, run, panels=["future"]), "Skipping one block"))
    np.testing.assert_allclose(values[UPPER], DATA["effect_future"].values[2:, 0, 0].mean(0)[UPPER])
    assert "4 of 6 prompts were long enough" in caption_of(FIGURE, run)
    assert "long enough" not in caption_of(FIGURE, RUN)


def test_no_prompt_long_enough_leaves_that_map_out() -> None:
    run = with_effect(RUN, "effect_future", None, np.nan)
    assert [panel.name for panel in FIGURE.panels(run, FigureOptions())] == [
        "all",
        "influence_all",
        "output_all",
        "prompts_all",
    ]


@pytest.mark.parametrize("top", [0.13, 0.9, 20.0, 4000.0])
def test_logarithmic_colour_bar_has_at_least_two_numbers(top: float) -> None:
    data = DATA.copy(deep=True)
    data["effect_all"][:] = np.geomspace(0.1, top, 12)
    run = replaced(RUN, "skip", data)
    figure = laid_out_from(FIGURE, run, FigureOptions(scale="log"), panels=["all"])
    (bar,) = [ax for ax in figure.axes if ax.get_xlabel().startswith("relative change")]
    low, high = bar.get_xlim()
    shown_at = [tick for tick in bar.get_xticks() if low <= tick <= high]
    labels = [label.get_text() for label in bar.get_xticklabels() if label.get_text()]
    assert len(shown_at) >= 2
    assert {f"{tick:.3g}" for tick in shown_at} <= set(labels)


def test_channels_that_are_skipped_leave_the_own_block_visible_at_later_tokens() -> None:
    identity = {**RUN.manifest["identity"], "measures": {"skip": {"axis": "channels"}}}
    run = Run(RUN.tree, {**RUN.manifest, "identity": identity})
    values = shown(axes_titled(drawn_from(FIGURE, run, panels=["future"]), "Skipping one block: effect on later"))
    np.testing.assert_array_equal(np.ma.getmaskarray(values), np.tril(np.ones((12, 12), dtype=bool), -1))


def test_zero_is_no_blank_on_a_logarithmic_scale() -> None:
    run = with_effect(RUN, "effect_all", (0, 5), 0.0)
    (image,) = axes_titled(drawn_from(FIGURE, run, FigureOptions(scale="log"), panels=["all"]), "Skipping").get_images()
    values = np.ma.asarray(image.get_array())
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~UPPER)
    assert image.norm(values[0, 5]) < 0
    assert image.colorbar.extend == "min"


def test_single_prompts_are_shown_in_the_same_colours() -> None:
    figure = drawn_from(FIGURE, RUN, FigureOptions(prompts_shown=3), panels=["prompts_future"])
    maps = [ax for ax in figure.axes if ax.get_images()]
    assert [ax.get_title(loc="left") for ax in maps] == ["prompt p0", "prompt p1", "prompt p2"]
    for prompt, ax in enumerate(maps):
        np.testing.assert_allclose(shown(ax)[UPPER], DATA["effect_future"].values[prompt, 0, 0][UPPER])
    assert len({ax.get_images()[0].get_clim() for ax in maps}) == 1
    assert "Prompt by prompt: 3 of 6 prompts" in caption_of(FIGURE, RUN, FigureOptions(prompts_shown=3))


@pytest.mark.parametrize(("prompts", "shown_at_most"), [(1, 4), (6, 0)])
def test_single_prompts_are_left_out(prompts: int, shown_at_most: int) -> None:
    run, options = synthetic_run(prompts=prompts), FigureOptions(prompts_shown=shown_at_most)
    assert [panel.name for panel in FIGURE.panels(run, options)] == [
        "all",
        "future",
        "influence_all",
        "influence_future",
        "output_all",
        "output_future",
    ]
    assert "Prompt by prompt" not in caption_of(FIGURE, run, options)


def test_influence_is_the_mean_over_prompts_of_rows_and_columns() -> None:
    ax = axes_titled(
        drawn_from(FIGURE, RUN, panels=["influence_future"]), "Skipping one block: effect on later tokens, by block"
    )
    effect = DATA["effect_future"].values[:, 0, 0]
    x, given = curve(ax, "given to later blocks")
    _, received = curve(ax, "received from earlier blocks")
    np.testing.assert_array_equal(x, range(12))
    np.testing.assert_allclose(given, influence_given(effect).mean(0))
    np.testing.assert_allclose(received, influence_received(effect).mean(0))
    np.testing.assert_allclose(given[3], effect[:, 3, 4:].mean())
    assert len(bands(ax)) == 2


def test_the_change_of_the_output_is_titled_by_its_place() -> None:
    at = xr.concat([DATA["effect_future"], DATA["effect_future"] * 0.5], "place").transpose("prompt", ...)
    output = xr.concat([DATA["output_future"], DATA["output_future"] * 0.5], "place").transpose("prompt", ...)
    data = DATA.assign(effect_at=at, output_at=output).assign_coords(place=["city", "-1"])
    titles = [
        panel.alt.partition(":")[0].removeprefix("Line chart, ")
        for panel in FIGURE.panels(replaced(RUN, "skip", data), FigureOptions())
        if panel.name.startswith("output_")
    ]
    assert titles == [
        f"change of the output, {reach}" for reach in ("all tokens", "later tokens", "from ‹city› on", "from ‹-1› on")
    ]
