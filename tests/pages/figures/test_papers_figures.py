"""Figures that papers have and no single measure: drop against swap, prediction neurons, probes, benchmarks, levels."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from statsmodels.stats.proportion import proportion_confint
from support.artists import curve
from support.synthetic import replaced, synthetic_run, without
from support.synthetic_tokens import complete_run

from bathyscope.pages.comparison.side_by_side import join_drawings, side_by_side
from bathyscope.pages.figures.kind import Drawing, Panel, draw_panel
from bathyscope.pages.figures.of import evaluation, probes
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES

RUNS = [complete_run(L=blocks, prompts=4, tokens=6, model=name) for blocks, name in ((5, "small"), (7, "large"))]


def panel(drawing: Drawing, name: str) -> Panel:
    return next(one for one in drawing.panels if one.name == name)


def test_drop_against_swap_is_a_row_a_model() -> None:
    figure = draw_panel(panel(side_by_side(RUNS)["drop_and_swap"], "top1_agreement"))
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["small", "large"]
    dots = [line for line in ax.lines if line.get_marker() in ("o", "s")]
    for row, run in enumerate(RUNS):
        for dot, measure, shift in zip(dots[2 * row :], ("drop", "swap"), (-0.13, 0.13)):
            data = run[measure]
            mean = data["top1_agreement"].mean("prompt")
            expected = float(mean.mean())
            assert float(dot.get_ydata()[0]) == pytest.approx(row + shift)
            assert float(dot.get_xdata()[0]) == pytest.approx(expected)
    said = [text.get_text() for text in ax.texts]
    assert said[-1] == "swapped − dropped"
    assert all(" to " in one for one in said[:2])
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"one block dropped", "neighbours swapped"}


def test_prediction_neurons_against_the_fall_of_the_kl() -> None:
    figure = draw_panel(panel(side_by_side(RUNS)["prediction_fall"], "fall"))
    (ax,) = figure.axes
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    for line, run in zip(dots, RUNS):
        lens = run["lens"]
        kl = lens["kl_lens_final"].mean("prompt").values
        np.testing.assert_allclose(line.get_xdata(), run["neurons"]["prediction_fraction"].values)
        np.testing.assert_allclose(line.get_ydata(), kl[:-1] - kl[1:])
    assert len({line.get_marker() for line in dots}) == 2
    assert [text.get_text().split(": ")[0] for text in figure.legends[0].get_texts()] == ["small", "large"]


def test_a_figure_of_two_measures_needs_both() -> None:
    assert not FIGURES["drop_and_swap"].drawable(without(RUNS[0], "drop"))
    assert FIGURES["drop_and_swap"].drawable(RUNS[0])


def test_the_output_by_block_is_the_largest_over_prompts_where_maxima_are_drawn() -> None:
    run = synthetic_run(6)
    (ax,) = draw_panel(panel(FIGURES["skip"].drawing(run, FigureOptions(reduction="max")), "output_future")).axes
    largest = run["skip"]["output_future"].sel(reduction="max").squeeze("part", drop=True).max("prompt").values
    np.testing.assert_allclose(ax.lines[0].get_ydata(), largest)


def test_the_effect_of_each_block_by_level() -> None:
    data = RUNS[0]["depth_score"]
    sizes = [data.sizes[dim] for dim in ("prompt", "reduction", "skipped")]
    effect = xr.DataArray(np.random.default_rng(1).random(sizes), dims=("prompt", "reduction", "skipped"))
    run = replaced(RUNS[0], "depth_score", data.assign(layer_effect=effect))
    drawing = FIGURES["depth_score"].drawing(run)
    (ax,) = draw_panel(panel(drawing, "by_level_layer")).axes
    label = next(str(name) for name in ("hops", "level") if name in data.coords and data[name].dims == ("prompt",))
    place = list(data["reduction"].values).index("mean")
    for level in data["level"].values:
        own = effect.values[data[label].values == level, place]
        np.testing.assert_allclose(curve(ax, f"{label} {level}")[1], own.mean(0))
    assert len({(line.get_marker(), line.get_color()) for line in ax.lines}) == data.sizes["level"]


def wic_data(boundaries: int) -> xr.Dataset:
    dims = ("features", "boundary")
    values = np.linspace(0.5, 0.9, boundaries)[None]
    data = {"accuracy": (dims, values), "ci_low": (dims, values - 0.1), "ci_high": (dims, values + 0.1)}
    return xr.Dataset({**data, "majority": 0.5}, {"features": ["difference"], "boundary": np.arange(boundaries)})


def test_word_meaning_over_the_depth_of_several_models() -> None:
    drawn = [{"wic": probes.wic(wic_data(count))} for count in (5, 9)]
    (ax,) = draw_panel(join_drawings(drawn, ["small", "large"])["wic"].panels[0]).axes
    for name, count in (("small", 5), ("large", 9)):
        x, y = curve(ax, name)
        np.testing.assert_allclose(x, np.arange(count) / (count - 1))
        np.testing.assert_allclose(y, np.linspace(0.5, 0.9, count))


def test_ensembles_of_neurons_by_size() -> None:
    dims, size = ("kind", "size"), np.arange(1, 5)
    values = np.stack([0.6 + 0.05 * size, 0.5 + 0.01 * size])
    names = ("ensemble_accuracy", "ensemble_ci_low", "ensemble_ci_high")
    data = xr.Dataset(dict.fromkeys(names, (dims, values)), {"kind": ["prediction", "suppression"], "size": size})
    (ax,) = draw_panel(probes.ing(data.assign(top1_accuracy=0.8)).panels[0]).axes
    np.testing.assert_allclose(curve(ax, "suppression neurons")[1], values[1])
    assert ax.get_xlabel() == "neurons together (number)"
    assert "the model's top-1" in [line.get_label() for line in ax.lines]


def test_benchmarks_by_block_and_kind() -> None:
    schedules = [("standard", "standard", -1, 0), *((f"drop:{n}", "drop", n, 1) for n in (2, 0, 1))]
    schedules += [(f"repeat:{n}+2", "repeat", n, 2) for n in (0, 1)]
    names, kinds, blocks, lengths = zip(*schedules)
    value = np.array([0.9, 0.3, 0.0, 0.2, 0.7, 0.6])[:, None, None]
    dims = ("schedule", "task", "metric")
    correct = np.where(np.arange(12) < 10, np.arange(12) < np.round(10 * value), np.nan)  # another task has two more
    data = xr.Dataset(
        {
            "value": (dims, value),
            "stderr": (dims, np.full_like(value, 0.1)),
            "correct": (("schedule", "task", "document"), correct),
        },
        {"schedule": list(names), "task": ["hellaswag"], "metric": ["acc"]}
        | {
            "kind": ("schedule", list(kinds)),
            "block": ("schedule", list(blocks)),
            "length": ("schedule", list(lengths)),
        },
        {"n_blocks": 3},
    )
    drawing = evaluation.drawing(data)
    assert ([one.name for one in drawing.panels], drawing.blocks) == (["hellaswag_drop_1", "hellaswag_repeat_2"], 3)
    (ax,) = draw_panel(drawing.panels[0]).axes
    x, y = curve(ax, "one block dropped")
    np.testing.assert_allclose(x, [0, 1, 2])
    np.testing.assert_allclose(y, [0.0, 0.2, 0.3])
    assert 0.9 in [float(np.atleast_1d(line.get_ydata())[0]) for line in ax.lines if line.get_label() == "normal model"]
    (band,) = (path.vertices for own in ax.collections for path in own.get_paths())
    # of none of ten Wilson's interval ends at z² / (10 + z²)
    assert max(y for x, y in band if x == 0) == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-4)
    assert min(y for x, y in band if x == 1) == pytest.approx(proportion_confint(2, 10, method="wilson")[0])
