"""Several runs in one picture: each model's own means over the share of its depth."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest
from support.artists import bands, curve
from support.synthetic import replaced, without
from support.synthetic_tokens import complete_run

from bathyscope.pages.comparison.side_by_side import side_by_side
from bathyscope.pages.figures.kind import Drawing, Member, Panel, draw_panel
from bathyscope.pages.figures.kit import lines, series
from bathyscope.pages.figures.kit.series import PLACES
from bathyscope.pages.figures.kit.summary import Summary
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.runs.run import Run

RUNS = [complete_run(L=blocks, prompts=3, tokens=6, model=name) for blocks, name in ((3, "small"), (6, "large"))]


@functools.cache
def together() -> dict[str, Drawing]:
    return side_by_side(RUNS)


def panel_of(measure: str, name: str, runs: Sequence[Run] = ()) -> Panel:
    """Of the two runs, or of these, of which the other measures are not looked at."""
    alone = [without(run, *(set(run) - {measure})) for run in runs]
    return next(panel for panel in (side_by_side(alone) if alone else together())[measure].panels if panel.name == name)


@pytest.mark.parametrize(
    ("variable", "label"),
    [("largest", "|activation| (activation units)"), ("largest_ratio", "largest / median (dimensionless)")],
)
def test_a_line_for_each_model_over_the_share_of_its_depth(variable: str, label: str) -> None:
    (ax,) = draw_panel(panel_of("residual", variable)).axes
    for run, name, blocks in zip(RUNS, ("small", "large"), (3, 6)):
        x, y = curve(ax, name)
        np.testing.assert_allclose(x, np.arange(blocks + 1) / blocks)
        np.testing.assert_allclose(y, run["residual"][variable].mean("prompt").values)
    assert len(bands(ax)) == 2
    assert ax.get_ylabel().removesuffix(", log scale") == label
    assert ax.get_xlabel() == "share of the depth (dimensionless)"
    assert ax.get_xlim() == (-0.02, 1.02)


def test_marks_and_colours_tell_the_model_and_dashes_the_quantity() -> None:
    panel = panel_of("gradient", "norms")
    figure = draw_panel(panel)
    (ax,) = figure.axes
    quantities = {"whole gradient": "norm", "through the token's own position": "norm_own"}
    for run, name, blocks in zip(RUNS, ("small", "large"), (3, 6)):
        for said, variable in quantities.items():
            x, y = curve(ax, f"{name}, {said}")
            np.testing.assert_allclose(x, np.arange(blocks + 1) / blocks)
            np.testing.assert_allclose(y, run["gradient"][variable].mean("prompt").values)
    assert ax.get_ylabel().removesuffix(", log scale") == "norm (nats per activation unit)"
    looks = {str(line.get_label()): line for line in ax.lines}
    by_model = {(line.get_color(), line.get_marker()) for name, line in looks.items() if name.startswith("small")}
    by_quantity = {line.get_linestyle() for name, line in looks.items() if name.endswith("whole gradient")}
    assert (len(by_model), len(by_quantity)) == (1, 1)
    assert len({line.get_linestyle() for line in ax.lines}) == 3
    (legend,) = figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["small", "large", *quantities, "through other positions"]


def test_many_curves_have_axes_for_each_quantity() -> None:
    third = complete_run(L=4, prompts=3, tokens=6, model="third")
    figure = draw_panel(panel_of("gradient", "norms", [*RUNS, third]))
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "whole gradient",
        "through the token's own position",
        "through other positions",
    ]
    for ax, name in zip(figure.axes, ("norm", "norm_own", "norm_rest")):
        np.testing.assert_allclose(curve(ax, "third")[1], third["gradient"][name].mean("prompt").values)
        assert [line.get_label() for line in ax.lines] == ["small", "large", "third"]
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    figure.draw_without_rendering()
    assert [bool(ax.get_xlabel()) for ax in figure.axes] == [False, True, False]
    label, legend = figure.axes[1].xaxis.label.get_window_extent(), figure.legends[0].get_window_extent()
    assert legend.y1 <= label.y0


@pytest.mark.parametrize(
    ("label", "x", "blocks", "expected"),
    [
        (PLACES["boundary"], [0, 1, 4], 4, [0, 0.25, 1]),
        (PLACES["boundary"], [0, 1], 4, [0, 0.25]),
        (PLACES["block"], [0, 3], 4, [0.125, 0.875]),
        (PLACES["dropped"], [1], 4, [0.375]),
        (PLACES["swapped"], [0, 2], 4, [0.25, 0.75]),
        (PLACES["start"], [0, 1], 4, [0.375, 0.625]),
        (PLACES["block"], [0, 3], None, [0.125, 0.875]),
    ],
)
def test_places_are_the_middle_of_what_they_count(
    label: str, x: list[int], blocks: int | None, expected: list[float]
) -> None:
    members = []
    for number in range(2):
        one = series.Series("", np.array(x), Summary(np.ones(len(x)), None, None), series.Look("#000000"))
        made = lines.make_panel("any", [one], series.Axis("any", label, "y"))
        assert made is not None
        members.append(Member(f"m{number}", number, made.shared[0].content, blocks))
    found = made.shared[0].together("any", members)
    assert found is not None
    np.testing.assert_allclose(curve(draw_panel(found).axes[0], "m0")[0], expected)


def test_curves_over_anything_else_are_not_laid_over_each_other() -> None:
    one = series.Series("", np.arange(3), Summary(np.ones(3), None, None), series.Look("#000000"))
    made = lines.make_panel("any", [one], series.Axis("any", PLACES["head"], "y"))
    assert made is not None
    assert made.shared == ()


def test_one_variable_of_a_panel() -> None:
    whole = next(panel for panel in FIGURES["gradient"].panels(RUNS[0]) if panel.name == "norms")
    found = lines.select_curve(whole, "norm_own")
    assert found is not None
    (ax,) = draw_panel(found).axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), RUNS[0]["gradient"]["norm_own"].mean("prompt").values)
    assert [line.get_label() for line in ax.lines] == ["through the token's own position"]
    assert lines.select_curve(whole, "entropy") is None


def test_many_long_names_stay_inside_of_the_picture() -> None:
    names = [f"DeepSeek-R1-Distill-Qwen-{size}B-Instruct" for size in range(7)]
    runs = [complete_run(L=3, prompts=2, tokens=4, model=name) for name in names]
    runs = [without(run, *(set(run) - {"residual", "lens"})) for run in runs]
    for measure, name in (("residual", "largest"), ("residual", "norms"), ("lens", "kl")):
        figure = draw_panel(panel_of(measure, name, runs))
        figure.draw_without_rendering()
        (legend,) = figure.legends
        said = [text.get_text() for text in legend.get_texts()]
        assert said[:7] == names
        box, whole = legend.get_window_extent(), figure.bbox
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert min(ax.get_position().height for ax in figure.axes) * figure.get_figheight() > 1.5


def test_curves_of_deep_models_keep_their_marks() -> None:
    deep = [complete_run(L=60, prompts=2, tokens=4, model=name) for name in ("one", "other")]
    deep = [without(run, *(set(run) - {"lens"})) for run in deep]
    for run in (deep[:1], deep):
        panels = FIGURES["lens"].panels(run[0]) if len(run) == 1 else side_by_side(run)["lens"].panels
        (ax,) = draw_panel(next(panel for panel in panels if panel.name == "kl")).axes
        drawn = [line for line in ax.lines if len(np.asarray(line.get_xdata())) > 2]
        assert all(line.get_marker() not in ("", "None") and line.get_markevery() == 4 for line in drawn)
        assert len({(line.get_color(), line.get_linestyle()) for line in drawn}) == len(drawn)
        assert len({(line.get_marker(), line.get_linestyle()) for line in drawn}) == len(drawn)


def test_a_variable_that_one_run_alone_holds_is_left_out() -> None:
    few = replaced(
        without(RUNS[0], *(set(RUNS[0]) - {"residual"})), "residual", RUNS[0]["residual"].drop_vars("largest")
    )
    both = [panel.name for panel in together()["residual"].panels]
    assert both == [panel.name for panel in FIGURES["residual"].panels(RUNS[0])]
    assert "largest" in both
    alone = [panel.name for panel in side_by_side([few, RUNS[1]])["residual"].panels]
    assert alone == [name for name in both if name != "largest"]


def test_a_run_looks_the_same_in_all_panels() -> None:
    third = complete_run(L=4, prompts=3, tokens=6, model="third")
    few = replaced(RUNS[0], "residual", RUNS[0]["residual"].drop_vars("largest"))
    alone = [without(run, *(set(run) - {"residual"})) for run in (few, RUNS[1], third)]
    panels = [one for one in side_by_side(alone)["residual"].panels if one.name != "neighbour"]
    found = {panel.name: draw_panel(panel).axes[0] for panel in panels}
    for name in ("large", "third"):
        looks = {
            (line.get_color(), line.get_marker())
            for ax in found.values()
            for line in ax.lines
            if line.get_label() == name
        }
        assert len(looks) == 1
    assert [line.get_label() for line in found["largest"].lines] == ["large", "third"]


def test_one_run_with_a_value_is_no_comparison() -> None:
    few = without(RUNS[0], *(set(RUNS[0]) - {"residual"}))
    none = replaced(few, "residual", few["residual"].assign(largest=few["residual"]["largest"] * np.nan))
    assert "largest" not in [panel.name for panel in side_by_side([none, RUNS[1]])["residual"].panels]


def test_norms_are_means_over_prompts() -> None:
    panel = panel_of("residual", "norms")
    data = RUNS[1]["residual"]
    mean = data["norm_resid"].mean("prompt")
    np.testing.assert_allclose(curve(draw_panel(panel).axes[0], "large, residual stream")[1], mean.values)
    assert "lowest" in panel.alt
    assert "at 0.167" in panel.alt or "at 1" in panel.alt
    assert "0.16666" not in panel.alt


def test_the_caption_says_what_lines_are() -> None:
    assert "over the share of its depth" in together()["gradient"].note
    assert "largest activations over prompts" in together()["residual"].note
