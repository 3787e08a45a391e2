from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.artists import axes_titled, curve
from support.synthetic import synthetic_run

from bathyscope.report.figures import lens

RUN = synthetic_run()
DATA = RUN["lens"]
TOKENS = DATA["n_tokens"].values


@functools.cache
def figure() -> Figure:
    return lens.draw(RUN)


@pytest.mark.parametrize(
    ("title", "label", "name", "tokens"),
    [
        ("Distance", "KL(lens ‖ final)", "kl_lens_final", TOKENS),
        ("Distance", "KL(final ‖ lens)", "kl_final_lens", TOKENS),
        ("Agreement", "top-5 overlap", "overlap", TOKENS),
        ("Agreement", "same top-1 token", "top1_agreement", TOKENS),
        ("Uncertainty", "entropy", "entropy", TOKENS),
        ("Loss", "cross-entropy", "cross_entropy", TOKENS - 1),
    ],
)
def test_curve_is_the_mean_over_its_positions(title: str, label: str, name: str, tokens: np.ndarray) -> None:
    x, y = curve(axes_titled(figure(), title), label)
    np.testing.assert_array_equal(x, np.arange(13))
    np.testing.assert_allclose(y, tokens @ DATA[name].values / tokens.sum())


@pytest.mark.parametrize(("title", "units"), [("Distance", "nats"), ("Uncertainty", "bits"), ("Loss", "nats")])
def test_units_are_those_of_the_data(title: str, units: str) -> None:
    assert f"({units})" in axes_titled(figure(), title).get_ylabel()


def test_several_norms_are_drawn_apart_and_named() -> None:
    run = synthetic_run(norms=("recompute", "frozen"))
    ax = axes_titled(lens.draw(run, panels=["kl"]), "Distance")
    frozen = run["lens"].sel(norm="frozen")["kl_lens_final"].values
    tokens = run["lens"]["n_tokens"].values
    np.testing.assert_allclose(curve(ax, "KL(lens ‖ final), frozen")[1], tokens @ frozen / tokens.sum())
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.get_lines()]
    assert len(set(looks)) == 4
    assert "recompute (solid) and frozen (broken line)" in lens.caption(run)
