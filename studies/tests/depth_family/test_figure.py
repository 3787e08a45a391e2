"""The figure of a depth family: what it draws is what the results hold."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bathyscope.extend.figures import render
from studies.depth_family.figure import caption, draw, panels
from studies.depth_family.profiles import PROFILES

BLOCKS = np.array([6, 6, 12, 24, 24, 12])
RATIO = np.array([0.8, 0.7, 0.6, 0.5, 0.4, 0.55])
NORMS = ["pre"] * 5 + ["post"]
ESTIMATORS = ["interpolated_kl", "settle", "centre_of_mass"]


@pytest.fixture
def data() -> xr.Dataset:
    ratio = np.stack([RATIO, RATIO / 2, np.full(6, np.nan)], axis=1)
    both = ("member", "estimator")
    values: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for end, change in (("", 0.0), ("_low", -0.1), ("_high", 0.1)):
        values[f"ratio{end}"] = (both, ratio + change)
        values[f"depth{end}"] = (both, (ratio + change) * BLOCKS[:, None] - 1)
    slope = np.array([[-0.15, -0.07, np.nan]])
    trend = ("norms", "estimator")
    for name, change in (("prompt_low", -0.02), ("prompt_high", 0.02), ("model_low", -0.2), ("model_high", 0.2)):
        values[name] = (trend, slope + change)
    coefficients = np.log2(BLOCKS[:5]) - np.log2(BLOCKS[:5]).mean()
    proportional = (coefficients / BLOCKS[:5]).sum() / (coefficients**2).sum()
    values |= {"slope": (trend, slope), "slope_proportional": (trend, np.full((1, 3), proportional))}
    values |= {name: (trend, np.array([[True, True, False]])) for name in ("stable", "proportional")}
    boundary = np.arange(25.0)
    grown = np.where(boundary <= BLOCKS[:, None], 1 + boundary * np.arange(1, 7)[:, None], np.nan)
    for name in PROFILES:
        for end, change in (("", 1.0), ("_low", 0.9), ("_high", 1.2)):
            values[f"{name}{end}"] = (("member", "boundary"), grown * change)
    coords = {
        "member": [f"m{n}" for n in range(6)],
        "member_norms": ("member", NORMS),
        "blocks": ("member", BLOCKS),
        "estimator": ESTIMATORS,
        "norms": ["pre"],
    }
    return xr.Dataset(values, coords, {"prompts": "mine, 4 prompts", "level": 0.95, "note": "Give several seeds."})


def axes_of(figure: Figure) -> list[Axes]:
    return [found for found in figure.findobj(Axes) if isinstance(found, Axes)]


def test_the_caption_says_what_intervals_are_about(data: xr.Dataset) -> None:
    said = caption(data)
    assert "(mine, 4 prompts)" in said
    assert "95% intervals over prompts" in said
    assert said.endswith("Give several seeds.")


def test_an_estimator_without_values_has_no_panel(data: xr.Dataset) -> None:
    made = {panel.name: panel for panel in panels(data)}
    assert list(made) == ["slopes", "interpolated_kl", "settle", *PROFILES]
    assert "m0: 0.80 of 6 blocks; m1: 0.70 of 6 blocks" in made["interpolated_kl"].alt
    assert "pre norms: 2 of 2 intervals hold 0, 2 the slope of the same relative depth" in made["slopes"].alt


def test_ratio_and_depth_stand_beside_each_other(data: xr.Dataset) -> None:
    by_title = {ax.get_title("left"): ax for ax in axes_of(draw(data))}
    ratio = by_title["Interpolated KL"]
    assert ratio.get_xscale() == "log"
    pre, mean, proportional, post = ratio.lines
    np.testing.assert_allclose(pre.get_ydata(), RATIO[:5])
    np.testing.assert_allclose(mean.get_xdata(), [6, 12, 24])
    np.testing.assert_allclose(mean.get_ydata(), [0.75, 0.6, 0.45])
    # ratio = relative depth + 1/L through the members' mean
    relative = (RATIO[:5] - 1 / BLOCKS[:5]).mean()
    np.testing.assert_allclose(np.asarray(proportional.get_ydata())[[0, -1]], [relative + 1 / 6, relative + 1 / 24])
    np.testing.assert_allclose(post.get_ydata(), RATIO[5:])
    assert (pre.get_marker(), post.get_marker()) == ("o", "s")
    depth = next(ax for ax in axes_of(draw(data)) if ax.get_ylabel() == "depth (block)")
    np.testing.assert_allclose(depth.lines[0].get_ydata(), RATIO[:5] * BLOCKS[:5] - 1)


def test_profiles_are_drawn_over_the_share_of_the_depth(data: xr.Dataset) -> None:
    by_title = {ax.get_title("left"): ax for ax in axes_of(draw(data))}
    ax = by_title["Norm of the gradient of the loss"]
    assert ax.get_ylabel() == "nats per activation unit, log scale"
    for line, blocks, number in zip(ax.lines, BLOCKS, range(1, 7)):
        np.testing.assert_allclose(line.get_xdata(), np.arange(blocks + 1) / blocks)
        np.testing.assert_allclose(line.get_ydata(), 1 + np.arange(blocks + 1) * number)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 6
    assert len(ax.collections) == 6
    alt = next(panel.alt for panel in panels(data) if panel.name == "largest")
    assert f"m1: 1 at the first boundary, {1 + 2 * BLOCKS[1]:.3g} at the last" in alt


def test_numbers_on_axes_hold_no_markup(data: xr.Dataset) -> None:
    figure = draw(data)
    render(figure, "png")
    numbers = [label.get_text() for ax in axes_of(figure) for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]]
    assert {"6", "12", "24", "10", "100"} <= set(numbers)
    assert not [number for number in numbers if "$" in number]


def test_whiskers_are_the_intervals(data: xr.Dataset) -> None:
    ratio = next(ax for ax in axes_of(draw(data)) if ax.get_title("left") == "Interpolated KL")
    ends = [path.vertices[:, 1] for path in ratio.collections[0].get_paths()]
    np.testing.assert_allclose(ends, np.stack([RATIO[:5] - 0.1, RATIO[:5] + 0.1], axis=1))


def test_slopes_have_both_intervals(data: xr.Dataset) -> None:
    slopes = next(ax for ax in axes_of(draw(data)) if ax.get_title("left") == "Is the ratio stable as blocks grow?")
    models, prompts = (slopes.collections[n].get_paths()[0].vertices[:, 0] for n in (0, 1))
    np.testing.assert_allclose(models, [-0.35, 0.05])
    np.testing.assert_allclose(prompts, [-0.17, -0.13])
    np.testing.assert_allclose(slopes.lines[0].get_xdata(), [-0.15])
    assert [label.get_text() for label in slopes.get_yticklabels()] == ["interpolated kl", "settle", "centre of mass"]
