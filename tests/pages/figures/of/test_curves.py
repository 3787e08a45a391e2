from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, caption_of, curve, drawn_from
from support.synthetic import replaced, synthetic_run
from support.synthetic import told as asked

from bathyscope.pages.figures.kind import FigureKind
from bathyscope.pages.figures.of.curves import FIGURES
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = synthetic_run()
KINDS = list(FIGURES.values())


@functools.cache
def drawn(kind: FigureKind) -> Figure:
    return drawn_from(kind, RUN, BY_TOKENS)


def weighted(kind: FigureKind, values: np.ndarray) -> np.ndarray:
    weights = RUN[kind.measure]["n_tokens"].values - 1
    return np.asarray(weights @ values / weights.sum())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_curves_weigh_positions_with_a_next_token(kind: FigureKind) -> None:
    data, figure = RUN[kind.measure], drawn(kind)
    _, kl = curve(axes_titled(figure, "How far"), "KL")
    _, agreement = curve(axes_titled(figure, "Top-1"), "agreement")
    _, loss = curve(axes_titled(figure, "Loss added"), "loss difference")
    _, entropy = curve(axes_titled(figure, "Entropy added"), "entropy difference")
    np.testing.assert_allclose(kl, weighted(kind, data["kl"].values))
    np.testing.assert_allclose(agreement, weighted(kind, data["top1_agreement"].values))
    np.testing.assert_allclose(loss, weighted(kind, data["loss"].values - data["baseline_loss"].values[:, None]))
    added = data["entropy"].values - data["baseline_entropy"].values[:, None]
    np.testing.assert_allclose(entropy, weighted(kind, added), atol=1e-12)
    assert [len(bands(ax)) for ax in figure.axes] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "at every position that has a next token."),
        ({"read_tokens": 40}, "at 40 tokens of each prompt, drawn at random from those that have a next one"),
        ({"positions": "published"}, "at every position but the last for the loss, and every one but the first"),
    ],
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_caption_says_which_tokens_are_compared(kind: FigureKind, options: dict[str, object], told: str) -> None:
    assert f"Compared with the unchanged model {told}" in caption_of(kind, asked(RUN, kind.measure, **options))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", ["loss", "entropy"])
def test_what_prompts_differ_in_without_any_change_is_no_band(kind: FigureKind, name: str) -> None:
    """Prompts of very different entropy, each of which a changed model leaves as much beyond its own."""
    data = RUN[kind.measure].copy(deep=True)
    added = np.linspace(-0.3, 0.4, data[name].shape[1])
    data[f"baseline_{name}"][:] = np.linspace(0.0, 9.0, data.sizes["prompt"])
    data[name][:] = data[f"baseline_{name}"].values[:, None] + added
    (ax,) = drawn_from(kind, replaced(RUN, kind.measure, data), BY_TOKENS, panels=[name]).axes
    _, y = curve(ax, f"{name} difference")
    np.testing.assert_allclose(y, added, atol=1e-12)
    (band,) = [path.vertices for own in bands(ax) for path in own.get_paths()]
    assert max(np.abs(band[:, 1, None] - added).min(1)) < 1e-9


def test_pairs_in_parallel_have_panels_of_their_own() -> None:
    data, places = RUN["swap"].copy(deep=True), ("prompt", "parallel")
    data = data.assign_coords(parallel=data["swapped"].values)
    data["kl_parallel"] = (places, data["kl"].values * 2, data["kl"].attrs)
    data["loss_parallel"] = (places, data["loss"].values + 0.25, data["loss"].attrs)
    figure = drawn_from(FIGURES["swap"], replaced(RUN, "swap", data), BY_TOKENS)
    _, kl = curve(axes_titled(figure, "How far predictions move with neighbours in parallel"), "KL")
    _, loss = curve(axes_titled(figure, "Loss added with neighbours in parallel"), "loss difference")
    np.testing.assert_allclose(kl, weighted(FIGURES["swap"], data["kl"].values * 2))
    added = data["loss"].values + 0.25 - data["baseline_loss"].values[:, None]
    np.testing.assert_allclose(loss, weighted(FIGURES["swap"], added))
    assert len(drawn(FIGURES["swap"]).axes) == 4


def test_direct_effects_and_self_repair_have_panels_of_their_own() -> None:
    data, places = RUN["drop"].copy(deep=True), ("prompt", "dropped")
    data["kl_direct"] = (places, data["kl"].values * 3, data["kl"].attrs)
    data["loss_direct"] = (places, data["loss"].values + 0.5, data["loss"].attrs)
    data["self_repair"] = (places, np.full(data["loss"].shape, 0.5), data["loss"].attrs)
    run = asked(replaced(RUN, "drop", data), "drop", replace="mean", direct=True)
    figure = drawn_from(FIGURES["drop"], run, BY_TOKENS)
    _, kl = curve(axes_titled(figure, "How far predictions move by a removal's direct effect"), "KL")
    _, repair = curve(axes_titled(figure, "Made up for by later blocks"), "self-repair")
    np.testing.assert_allclose(kl, weighted(FIGURES["drop"], data["kl"].values * 3))
    np.testing.assert_allclose(repair, 0.5)
    caption = caption_of(FIGURES["drop"], run)
    assert "replaced by its mean over the tokens of the other prompts" in caption
    assert "self-repair is what later blocks make up for, direct minus total loss" in caption
    assert "self-repair" not in caption_of(FIGURES["drop"], RUN)


def costing(costs: list[float]) -> Run:
    data = RUN["drop"].isel(dropped=slice(len(costs))).copy(deep=True)
    data["loss"][:] = data["baseline_loss"].values[:, None] + np.array(costs)
    return replaced(RUN, "drop", data)


def test_small_costs_can_be_read_beside_a_large_one() -> None:
    """Block 0 costs 3.5, the others a twentieth of it or less, of either sign."""
    costs = [3.5, 0.02, -0.05, 0.1, -0.18, 0.06, 0.2]
    (ax,) = drawn_from(FIGURES["drop"], costing(costs), BY_TOKENS, panels=["loss"]).axes
    assert ax.get_yscale() == "symlog"
    assert "log scale beyond 0.1" in ax.get_ylabel()
    bottom, top = ax.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    heights = (ax.transData.transform([(0, cost) for cost in costs])[:, 1] - bottom) / (top - bottom)
    assert heights[6] - heights[4] > 0.4
    assert heights[3] - heights[2] > 0.15
    ticks = ax.transData.transform([(0, tick) for tick in ax.get_yticks()])[:, 1]
    assert len(ticks) >= 4
    assert np.diff(ticks).min() > 0.1 * (top - bottom)


def test_costs_of_one_size_are_linear() -> None:
    (ax,) = drawn_from(FIGURES["drop"], costing([0.5, 0.2, -0.1, 0.3]), BY_TOKENS, panels=["loss"]).axes
    assert ax.get_yscale() == "linear"
    (flat,) = drawn_from(FIGURES["drop"], costing([0.0, 0.0, 0.0]), BY_TOKENS, panels=["loss"]).axes
    assert flat.get_yscale() == "linear"


def test_chosen_blocks_stand_at_their_own_index() -> None:
    data = RUN["drop"].isel(dropped=[2, 7])
    x, _ = curve(
        axes_titled(drawn_from(FIGURES["drop"], replaced(RUN, "drop", data), BY_TOKENS, panels=["kl"]), "How far"), "KL"
    )
    np.testing.assert_array_equal(x, [2, 7])


def test_large_spread_of_kl_is_logarithmic() -> None:
    data = RUN["drop"].copy(deep=True)
    data["kl"][:, 0] = 500.0
    (ax,) = drawn_from(FIGURES["drop"], replaced(RUN, "drop", data), BY_TOKENS, panels=["kl"]).axes
    assert ax.get_yscale() == "log"
    assert axes_titled(drawn(FIGURES["drop"]), "How far").get_yscale() == "linear"


def test_caption_of_repeat_gives_its_window() -> None:
    assert "window of 3 blocks" in caption_of(FIGURES["repeat"], RUN)
    assert "runs 2 times" in caption_of(FIGURES["repeat"], RUN)


def test_variable_that_is_missing_leaves_its_panel_out() -> None:
    run = replaced(RUN, "swap", RUN["swap"].drop_vars("loss"))
    assert [panel.name for panel in FIGURES["swap"].panels(run, FigureOptions())] == [
        "kl",
        "top1_agreement",
        "entropy",
    ]
