from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.artists import axes_titled, curve, visible_texts

from bathyscope.errors import OptionError
from bathyscope.extend.figures import draw_maps
from bathyscope.pages.figures.of import maps

SOURCES, TARGETS = 4, 7


@functools.cache
def found() -> xr.Dataset:
    draw = np.random.default_rng(0)
    error = draw.uniform(0.1, 0.9, (SOURCES, TARGETS))
    r2 = 1 - 2 * error
    statistics = {
        name: ("direction", np.array([value, value / 2]))
        for name, value in {
            "slope": 0.8,
            "slope_low": 0.7,
            "slope_high": 0.9,
            "deviation": 0.1,
            "deviation_low": 0.05,
            "deviation_high": 0.2,
            "deviation_chance": 0.36,
        }.items()
    }
    variables = {
        "relative_error": (("source", "target"), error),
        "r2": (("source", "target"), r2),
        "best_target": ("source", error.argmin(1)),
        "best_source": ("target", error.argmin(0)),
        **statistics,
    }
    coords = {
        "source": np.arange(SOURCES),
        "target": np.arange(TARGETS),
        "relative_depth_source": ("source", np.arange(SOURCES) / (SOURCES - 1)),
        "relative_depth_target": ("target", np.arange(TARGETS) / (TARGETS - 1)),
        "direction": ["best_target", "best_source"],
    }
    attrs = {
        "source_model": "example/shallow",
        "target_model": "example/deep",
        "prompts": "corpus.txt:40",
        "fit_tokens": 700,
        "choose_tokens": 100,
        "test_tokens": 200,
        "test_prompts": 8,
    }
    return xr.Dataset(variables, coords, attrs)


@functools.cache
def drawn() -> Figure:
    return maps.draw(found())


def test_maps_hold_the_values_and_share_of_variance_ends_at_0() -> None:
    (error,) = axes_titled(drawn(), "Relative error").get_images()
    np.testing.assert_array_equal(error.get_array().filled(np.nan), found()["relative_error"].values)
    (r2,) = axes_titled(drawn(), "Share of variance").get_images()
    np.testing.assert_array_equal(r2.get_array().filled(np.nan), np.maximum(found()["r2"].values, 0))
    assert r2.get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("example/shallow", "/home/me/models/deep"), ("shallow", "deep")),
        (("one/model", "other/model"), ("one/model", "other/model")),
    ],
)
def test_axes_name_the_models(names: tuple[str, str], said: tuple[str, str]) -> None:
    data = found().assign_attrs(source_model=names[0], target_model=names[1])
    ax = axes_titled(maps.draw(data), "Relative error")
    assert ax.get_ylabel() == f"boundary of the source, {said[0]}"
    assert ax.get_xlabel() == f"boundary of the target, {said[1]}"
    assert maps.drawing(data).note.startswith(f"{names[0]} (source) → {names[1]} (target)")


def test_best_partners_by_relative_depth() -> None:
    ax = axes_titled(drawn(), "Do best partners")
    x, y = curve(ax, "best target of each source boundary")
    np.testing.assert_allclose(x, np.arange(SOURCES) / 3)
    np.testing.assert_allclose(y, found()["best_target"].values / 6)
    x, y = curve(ax, "best source of each target boundary")
    np.testing.assert_allclose(x, np.arange(TARGETS) / 6)
    np.testing.assert_allclose(y, found()["best_source"].values / 3)


def test_marks_on_the_map_are_the_best_partners() -> None:
    _, sources, targets = axes_titled(drawn(), "Relative error").get_lines()
    np.testing.assert_array_equal(sources.get_xydata(), np.column_stack([np.arange(TARGETS), found()["best_source"]]))
    np.testing.assert_array_equal(targets.get_xydata(), np.column_stack([found()["best_target"], np.arange(SOURCES)]))


def test_caption_says_what_was_fitted_and_where_the_diagonal_is() -> None:
    said = maps.drawing(found()).note
    for part in (
        "example/shallow (source) → example/deep (target), corpus.txt:40",
        "Fitted to 700 tokens, ridge chosen on 100, errors on 200 tokens of 8 other prompts",
        "Best target of each source: slope 0.80 (0.70 to 0.90);",
        "mean distance 0.05 (0.03 to 0.10), by chance 0.18",
    ):
        assert part in said
    heading = next(text for text, _ in visible_texts(drawn()) if text.startswith("example/shallow"))
    assert heading.replace("\n", " ") == said


def test_who_cannot_see_the_figure_is_told_the_values() -> None:
    error, _, partners = maps.drawing(found()).panels
    assert error.alt.startswith("Heat map of 4 by 7 boundaries.")
    assert f"{found()['relative_error'].values.max():.3g}" in error.alt
    assert "slope 0.80" in partners.alt


def test_a_boundary_without_a_partner_has_no_mark() -> None:
    data = found().copy(deep=True)
    data["best_source"][2] = -1
    figure = maps.draw(data)
    for title in ("Do best partners", "Relative error"):
        lines = axes_titled(figure, title).get_lines()
        (mine,) = [line.get_xydata() for line in lines if len(line.get_xydata()) == TARGETS]
        assert np.isnan(mine[2, 1])
        assert np.isfinite(np.delete(mine, 2, axis=0)).all()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: found().drop_vars("r2"), "lacks r2. Give the data of what bathyscope.maps returned"),
        (lambda: found().drop_attrs(), "lacks source_model"),
        (lambda: xr.Dataset({"depth": ("prompt", [1.0])}), "lacks relative_error"),
        (
            lambda: {"relative_error": 1},
            "data=.* is no dataset of maps; give the data of what bathyscope.maps returned",
        ),
        (lambda: None, "data=None is no dataset of maps"),
        (lambda: "maps.nc", "data='maps.nc' is no dataset of maps"),
    ],
)
def test_what_is_of_something_else_is_not_drawn(data: Callable[[], Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        draw_maps(data())
