from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import Rectangle
from support.artists import axes_titled, caption_of, curve, drawn_from
from support.synthetic import replaced, synthetic_run
from support.synthetic_stages import planted, stages

from bathyscope.pages.comparison.side_by_side import side_by_side
from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.of.stages import FIGURE
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

CURVES = 7


def run_of(edges: tuple[int, ...], L: int, name: str = "example/model", noise: float = 0.6, **options: int) -> Run:
    return replaced(
        synthetic_run(L, model=name), "stages", stages(planted(edges, L, prompts=6, noise=noise), **options)
    )


RUN = run_of((3, 7, 9), 12)
DATA = RUN["stages"]


def test_every_signature_has_a_row_with_its_values_and_unit() -> None:
    axes = drawn_from(FIGURE, RUN, panels=["signatures"]).axes
    assert len(axes) == CURVES
    for row, ax in enumerate(axes):
        (line,) = ax.get_lines()
        np.testing.assert_array_equal(line.get_xdata(), np.arange(12))
        np.testing.assert_allclose(line.get_ydata(), DATA["signature"].values[row])
    labels = [ax.get_ylabel().replace("\n", " ") for ax in axes]
    assert labels[0].startswith("KL without the block")
    assert axes[0].get_yscale() == "log" != axes[1].get_yscale()
    assert "(activation units)" in labels[-1]


def test_boundaries_stand_half_a_block_before_the_stage_over_their_intervals() -> None:
    for ax in drawn_from(FIGURE, RUN, panels=["signatures"]).axes:
        marks = [one.get_segments()[0][0][0] for one in ax.collections if isinstance(one, LineCollection)]
        np.testing.assert_allclose(marks, DATA["boundary"].values - 0.5)
        spans = [(one.get_x(), one.get_x() + one.get_width()) for one in ax.patches if isinstance(one, Rectangle)]
        np.testing.assert_allclose(spans, np.stack([DATA["ci_low"], DATA["ci_high"]], axis=1) - 0.5)


def test_stages_are_numbered_above_their_middle() -> None:
    top = drawn_from(FIGURE, RUN, panels=["signatures"]).axes[0]
    found = {text.get_text(): text.get_position()[0] for text in top.texts}
    edges = [0, *DATA["boundary"].values, 12]
    assert found == {str(n + 1): (edges[n] + edges[n + 1] - 1) / 2 for n in range(4)}


def test_the_error_on_held_out_prompts_and_what_straight_lines_would_leave() -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN), "How many stages")
    error, floor = DATA["heldout_error"].values, float(DATA["floor"])
    k, drawn = curve(ax, "if all curves were straight lines")
    np.testing.assert_array_equal(k, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(drawn, floor + (error[0] - floor) * DATA["unexplained_ramp"].values)
    (measured,) = (line for line in ax.get_lines() if line.get_marker() == "o")
    np.testing.assert_allclose(measured.get_ydata(), error)
    (best,) = (one.get_offsets() for one in ax.collections if isinstance(one, PathCollection))
    np.testing.assert_allclose(best, [[float(DATA["best_k"]), error[int(DATA["best_k"]) - 1]]])


def test_the_caption_names_the_stages_and_says_how_many_there_are() -> None:
    said = caption_of(FIGURE, RUN)
    assert "feature engineering, prediction ensembling, residual calibration" in said
    assert f"not clearly worse than the best: {int(DATA['best_k'])}" in said
    three = run_of((3, 7), 12, stages=3)
    assert "feature engineering" not in caption_of(FIGURE, three)
    many = run_of((3, 7, 9), 12, noise=0.1, most=3)
    assert "not clearly worse than the best: 3; more than 3 were not tried" in caption_of(FIGURE, many)


def test_what_is_left_out_is_said_and_not_drawn() -> None:
    merged = planted((3, 7, 9), 12, prompts=6, noise=0.6)
    del merged["attention_locality"]
    run = replaced(RUN, "stages", stages(merged))
    assert len(drawn_from(FIGURE, run, panels=["signatures"]).axes) == CURVES - 1
    assert "Left out: attention_prev5 (attention_locality was not measured)." in caption_of(FIGURE, run)


def test_a_shallow_model_has_signatures_and_a_reason() -> None:
    run = run_of((2,), 5)
    for ax in drawn_from(FIGURE, run, panels=["signatures"]).axes:
        assert not ax.patches
        assert not ax.texts
    assert "4 stages of at least 2 blocks need 8 blocks, and the model has 5." in caption_of(FIGURE, run)


def test_boundaries_of_one_prompt_have_no_interval_to_tell() -> None:
    data = DATA.copy(deep=True)
    data["ci_low"].values[:] = data["ci_high"].values[:] = np.nan
    panel = FIGURE.panels(replaced(RUN, "stages", data), FigureOptions())[0]
    assert "Stages begin at block " in panel.alt
    assert "nan" not in panel.alt


def test_without_bands_none_is_drawn() -> None:
    with_bands = drawn_from(FIGURE, RUN, panels=["signatures"]).axes[0].collections
    without = drawn_from(FIGURE, RUN, FigureOptions(band="none"), panels=["signatures"]).axes[0].collections
    assert len(with_bands) == len(without) + 1


def test_models_stand_together_over_the_share_of_their_depth() -> None:
    runs = [run_of((3, 7, 9), 12, "small"), run_of((8, 16, 20), 24, "large"), run_of((2,), 5, "tiny")]
    (panel,) = side_by_side(runs)["stages"].panels
    *rows, bottom = draw_panel(panel).axes
    assert len(rows) == CURVES
    for ax, name in zip(rows, DATA["curve"].values):
        drawn = [line for line in ax.get_lines() if len(np.asarray(line.get_xdata()))]
        for line, run, L in zip(drawn, runs, (12, 24, 5), strict=True):
            np.testing.assert_allclose(line.get_xdata(), (np.arange(L) + 0.5) / L)
            np.testing.assert_allclose(line.get_ydata(), run["stages"]["standardised"].sel(curve=name))
    for line, run, L in zip(bottom.get_lines(), runs, (12, 24)):
        np.testing.assert_allclose(line.get_xdata(), run["stages"]["boundary"].values / L)
    (reason,) = bottom.texts
    assert reason.get_text().startswith("none: 4 stages of at least 2 blocks need 8")
    for text in ("small: 0.25", "large: 0.33", "tiny: none"):
        assert text in panel.alt
    assert side_by_side(runs)["stages"].note.startswith("Signatures of each model over the share of its depth")


@pytest.mark.parametrize("count", [1, 2])
def test_one_model_with_stages_is_not_compared(count: int) -> None:
    runs = [RUN, synthetic_run(6)][:count]
    assert "stages" not in side_by_side(runs)
