from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, curve, data_lines

import bathyscope
from bathyscope.pages.figures.of import depth_performance

N = 20


@functools.cache
def found() -> xr.Dataset:
    draw = np.random.default_rng(0)
    layers, d_model = draw.integers(6, 60, N), 64 * draw.integers(8, 64, N)
    table = {
        "name": [f"m{number}" for number in range(N)],
        "family": ["qwen", "llama"] * (N // 2),
        "layers": layers,
        "d_model": d_model,
        "accuracy": 0.2 + 0.004 * layers + 0.03 * draw.normal(size=N),
    }
    return bathyscope.depth_performance(pd.DataFrame(table), score="accuracy", covariates=["d_model"], level=0.9)


@functools.cache
def drawn() -> Figure:
    return depth_performance.drawing(found()).alone()


def test_points_of_each_family_are_the_adjusted_ones() -> None:
    ax = axes_titled(drawn(), "Performance against depth")
    for family in ("qwen", "llama"):
        own = found().isel(model=found()["family"].values == family)
        x, y = curve(ax, family)
        np.testing.assert_array_equal(x, own["adjusted_layers"].values)
        np.testing.assert_array_equal(y, own["adjusted_score"].values)
    looks = [(line.get_color(), line.get_marker()) for line in ax.get_lines() if line.get_label() in ("qwen", "llama")]
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 2


def test_line_and_bands_are_the_regressions() -> None:
    ax = axes_titled(drawn(), "Performance against depth")
    (band,) = bands(ax)
    plain = found().sel(errors="plain")
    vertices = band.get_paths()[0].vertices
    for name, pick in (("band_low", min), ("band_high", max)):
        for place in (0, 50, 100):
            ends = [y for x, y in vertices if x == plain["point"].values[place]]
            assert pick(ends) == plain[name].values[place]
    drawn_y = [np.asarray(line.get_ydata()) for line in data_lines(ax)]
    robust = found().sel(errors="hc3")
    for wanted in (robust["band_low"], robust["band_high"], found()["mean_response"]):
        assert any(np.array_equal(wanted.values, y) for y in drawn_y)


def test_axes_and_caption_say_what_is_held_constant() -> None:
    ax = axes_titled(drawn(), "Performance against depth")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("number of layers, adjusted", "accuracy, adjusted")
    said = depth_performance.drawing(found()).note
    slope = float(found()["coefficient"].sel(term="layers"))
    assert said.startswith("accuracy against layers, d_model held constant: 20 models of 2 families.")
    assert f"the regression, {slope:+.3g} for each layer (" in said
    assert "90% confidence band (of the mean response, not of single models)" in said
    (panel,) = depth_performance.drawing(found()).panels
    assert f"{slope:+.3g} for each layer" in panel.alt


def test_a_regression_without_covariates_is_drawn_as_it_is() -> None:
    table = {"name": ["a", "b", "c", "d"], "family": "one", "layers": [2, 4, 8, 16], "score": [0.1, 0.3, 0.4, 0.9]}
    data = bathyscope.depth_performance(pd.DataFrame(table), covariates=[])
    ax = axes_titled(depth_performance.drawing(data).alone(), "Performance against depth")
    np.testing.assert_allclose(curve(ax, "one"), [table["layers"], table["score"]])
    assert ax.get_xlabel() == "number of layers"
    assert depth_performance.drawing(data).note.startswith("score against layers: 4 models of 1 family.")
