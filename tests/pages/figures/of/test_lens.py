from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.artists import axes_titled, caption_of, curve, drawn_from
from support.synthetic import replaced, synthetic_run, told
from support.synthetic_tokens import complete_run

from bathyscope.measures.curves import depth_inputs
from bathyscope.pages.figures.of.lens import FIGURE
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.statistics.effective_depth import effective_depth
from bathyscope.statistics.sampling import Sampling

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = synthetic_run()
DATA = RUN["lens"]


@functools.cache
def figure() -> Figure:
    return drawn_from(FIGURE, RUN, BY_TOKENS)


@pytest.mark.parametrize(("title", "units"), [("Distance", "nats"), ("Uncertainty", "bits"), ("Loss", "nats")])
def test_units_are_those_of_the_data(title: str, units: str) -> None:
    assert f"({units})" in axes_titled(figure(), title).get_ylabel()


def test_several_norms_are_drawn_apart_and_named() -> None:
    run = synthetic_run(norms=("recompute", "frozen"))
    ax = axes_titled(drawn_from(FIGURE, run, BY_TOKENS, panels=["kl"]), "Distance")
    frozen = run["lens"].sel(norm="frozen")["kl_lens_final"].values
    tokens = run["lens"]["n_tokens"].values
    np.testing.assert_allclose(curve(ax, "KL(lens ‖ final), frozen")[1], tokens @ frozen / tokens.sum())
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.get_lines()]
    assert len(set(looks)) == 4
    assert "recompute (solid) and frozen (broken line)" in caption_of(FIGURE, run)


def test_entropies_of_two_norms_stand_side_by_side_on_one_scale() -> None:
    run = synthetic_run(norms=("recompute", "frozen"))
    axes = drawn_from(FIGURE, run, BY_TOKENS, panels=["entropy"]).axes
    tokens = run["lens"]["n_tokens"].values
    for ax, norm in zip(axes, ("recompute", "frozen"), strict=True):
        mean = tokens @ run["lens"]["entropy"].sel(norm=norm).values / tokens.sum()
        np.testing.assert_allclose(curve(ax, f"entropy, {norm}")[1], mean)
        assert len(ax.get_lines()) == 2
        assert ax.get_title(loc="left") == f"entropy, {norm}"
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert "the norm alone grows" in caption_of(FIGURE, run)
    assert "the norm alone grows" not in caption_of(FIGURE, RUN)


@pytest.mark.parametrize(
    ("title", "row", "name", "label"),
    [
        ("Where predictions settle", 0, "settle_depth", "settle depth"),
        ("Where predictions settle", 1, "prediction_depth", "prediction depth"),
        ("Tokens that settle late", 0, "deep_thinking_ratio", "deep-thinking ratio"),
    ],
)
def test_every_prompt_is_a_dot_beside_the_mean_and_its_interval(title: str, row: int, name: str, label: str) -> None:
    run = complete_run(tokens=6)
    ax = axes_titled(drawn_from(FIGURE, run, BY_TOKENS, panels=["settling", "deep_thinking"]), title)
    values = run["lens"][name].values
    dots = [line for line in ax.get_lines() if line.get_label() == "prompts"][row]
    np.testing.assert_array_equal(dots.get_xdata(), values)
    assert np.abs(np.asarray(dots.get_ydata()) - row).max() < 0.3
    mean = [line for line in ax.get_lines() if line.get_label() == "mean"][row]
    expected = run["lens"]["n_tokens"].values @ values / run["lens"]["n_tokens"].values.sum()
    np.testing.assert_allclose(mean.get_xdata(), expected)
    ends = [line for line in ax.get_lines() if line.get_label() == "interval"][row].get_xdata()
    assert ends[0] < expected < ends[1]
    assert ax.get_yticklabels()[row].get_text() == label


@pytest.mark.parametrize(("row", "name"), [(0, "settle"), (1, "prediction")])
def test_figure_and_table_say_the_same_depth_of_tokens(row: int, name: str) -> None:
    run = complete_run(tokens=6)
    ax = axes_titled(drawn_from(FIGURE, run, panels=["settling"]), "Where predictions settle")
    mean = [line for line in ax.get_lines() if line.get_label() == "mean"][row]
    inputs = depth_inputs(run["residual"], run["lens"], run["skip"])
    assert mean.get_xdata()[0] == pytest.approx(effective_depth(inputs, Sampling(100))[name].depth)


def test_settling_of_several_norms_has_a_row_each() -> None:
    data = DATA.assign(settle_depth=("prompt", np.linspace(3, 9, 6)))
    both = xr.concat([data, data.assign(settle_depth=data["settle_depth"] * np.nan)], "norm")
    run = replaced(RUN, "lens", both.assign_coords(norm=["recompute", "frozen"]))
    (ax,) = drawn_from(FIGURE, run, BY_TOKENS, panels=["settling"]).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["settle depth,\nrecompute"]


def test_runs_without_settling_say_nothing_of_it() -> None:
    names = [panel.name for panel in FIGURE.panels(RUN, FigureOptions())]
    assert names == ["kl", "agreement", "entropy", "cross_entropy"]
    assert "Settle depth" not in caption_of(FIGURE, RUN)
    assert "Settle depth" in caption_of(FIGURE, complete_run(tokens=6))


def test_the_caption_names_the_tokens_that_means_are_over() -> None:
    assert "The tokens are those" not in caption_of(FIGURE, RUN)
    assert "The tokens are those that predict the prompts' answers." in caption_of(
        FIGURE, told(RUN, "lens", positions="answer")
    )
    assert "the first and the last token are left out" in caption_of(FIGURE, told(RUN, "lens", positions="inner"))
