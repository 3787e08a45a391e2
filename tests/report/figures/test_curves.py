from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, curve
from support.synthetic import replaced, synthetic_run

from bathyscope.report.figures.curves import FIGURES
from bathyscope.report.figures.kind import FigureKind
from bathyscope.report.figures.options import FigureOptions

RUN = synthetic_run()
KINDS = list(FIGURES.values())


@functools.cache
def drawn(kind: FigureKind) -> Figure:
    return kind.draw(RUN)


def weighted(kind: FigureKind, values: np.ndarray) -> np.ndarray:
    weights = RUN[kind.measure]["n_tokens"].values - 1
    return np.asarray(weights @ values / weights.sum())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_curves_weigh_positions_with_a_next_token(kind: FigureKind) -> None:
    data, figure = RUN[kind.measure], drawn(kind)
    _, kl = curve(axes_titled(figure, "How far"), "KL")
    _, agreement = curve(axes_titled(figure, "Top-1"), "agreement")
    _, loss = curve(axes_titled(figure, "Loss added"), "loss difference")
    _, entropy = curve(axes_titled(figure, "Entropy"), "changed model")
    np.testing.assert_allclose(kl, weighted(kind, data["kl"].values))
    np.testing.assert_allclose(agreement, weighted(kind, data["top1_agreement"].values))
    np.testing.assert_allclose(loss, weighted(kind, data["loss"].values - data["baseline_loss"].values[:, None]))
    np.testing.assert_allclose(entropy, weighted(kind, data["entropy"].values))
    assert [len(bands(ax)) for ax in figure.axes] == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_entropy_of_the_untouched_model_is_a_line(kind: FigureKind) -> None:
    _, y = curve(axes_titled(drawn(kind), "Entropy"), "untouched model")
    np.testing.assert_allclose(y, weighted(kind, RUN[kind.measure]["baseline_entropy"].values))


def test_chosen_blocks_stand_at_their_own_index() -> None:
    data = RUN["drop"].isel(dropped=[2, 7])
    x, _ = curve(axes_titled(FIGURES["drop"].draw(replaced(RUN, "drop", data), panels=["kl"]), "How far"), "KL")
    np.testing.assert_array_equal(x, [2, 7])


def test_large_spread_of_kl_is_logarithmic() -> None:
    data = RUN["drop"].copy(deep=True)
    data["kl"][:, 0] = 500.0
    (ax,) = FIGURES["drop"].draw(replaced(RUN, "drop", data), panels=["kl"]).axes
    assert ax.get_yscale() == "log"
    assert axes_titled(drawn(FIGURES["drop"]), "How far").get_yscale() == "linear"


def test_caption_of_repeat_gives_its_window() -> None:
    assert "window of 3 blocks" in FIGURES["repeat"].caption(RUN)
    assert "runs 2 times" in FIGURES["repeat"].caption(RUN)


def test_variable_that_is_missing_leaves_its_panel_out() -> None:
    run = replaced(RUN, "swap", RUN["swap"].drop_vars("loss"))
    assert [panel.name for panel in FIGURES["swap"].panels(run, FigureOptions())] == [
        "kl",
        "top1_agreement",
        "entropy",
    ]
