"""Several runs in one picture: each model's own means over the share of its depth."""

from __future__ import annotations

import numpy as np
import pytest
from support.artists import bands, curve
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.report.figures.kind import draw_panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.side_by_side import side_by_side

RUNS = [complete_run(L=blocks, prompts=3, tokens=6, model=name) for blocks, name in ((3, "small"), (6, "large"))]


@pytest.mark.parametrize(
    ("measure", "variable", "label"),
    [
        ("residual", "largest", "|activation| (activation units)"),
        ("residual", "largest_ratio", "largest / median (dimensionless)"),
        ("gradient", "norm", "norm (nats per activation unit)"),
        ("gradient", "norm_own", "norm (nats per activation unit)"),
    ],
)
def test_a_line_for_each_model_over_the_share_of_its_depth(measure: str, variable: str, label: str) -> None:
    panel = next(panel for panel in side_by_side(RUNS)[measure].panels if panel.name == variable)
    (ax,) = draw_panel(panel).axes
    for run, name, blocks in zip(RUNS, ("small", "large"), (3, 6)):
        x, y = curve(ax, name)
        np.testing.assert_allclose(x, np.arange(blocks + 1) / blocks)
        np.testing.assert_allclose(y, run[measure][variable].mean("prompt").values)
    assert len(bands(ax)) == 2
    assert ax.get_ylabel().removesuffix(", log scale") == label
    assert ax.get_xlabel() == "boundary / number of blocks (share of the depth)"
    assert ax.get_xlim() == (-0.02, 1.02)


def test_a_variable_that_one_run_alone_holds_is_left_out() -> None:
    few = replaced(RUNS[0], "residual", RUNS[0]["residual"].drop_vars("largest"))
    assert [panel.name for panel in side_by_side(RUNS)["residual"].panels] == ["norm_resid", "largest", "largest_ratio"]
    assert [panel.name for panel in side_by_side([few, RUNS[1]])["residual"].panels] == ["norm_resid", "largest_ratio"]


def test_a_run_looks_the_same_in_all_panels() -> None:
    third = complete_run(L=4, prompts=3, tokens=6, model="third")
    few = replaced(RUNS[0], "residual", RUNS[0]["residual"].drop_vars("largest"))
    found = {panel.name: draw_panel(panel).axes[0] for panel in side_by_side([few, RUNS[1], third])["residual"].panels}
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
    none = replaced(RUNS[0], "residual", RUNS[0]["residual"].assign(largest=RUNS[0]["residual"]["largest"] * np.nan))
    assert "largest" not in [panel.name for panel in side_by_side([none, RUNS[1]])["residual"].panels]


def test_norms_are_means_over_tokens() -> None:
    panel = next(panel for panel in side_by_side(RUNS)["residual"].panels if panel.name == "norm_resid")
    data = RUNS[1]["residual"]
    weighted = data["norm_resid"].weighted(data["n_tokens"]).mean("prompt")
    np.testing.assert_allclose(curve(draw_panel(panel).axes[0], "large")[1], weighted.values)
    assert "lowest" in panel.alt
    assert "at 0.167" in panel.alt or "at 1" in panel.alt
    assert "0.16666" not in panel.alt


def test_the_caption_says_what_lines_are() -> None:
    assert "over the share of its depth" in side_by_side(RUNS, FigureOptions())["gradient"].note
    assert "largest activations over prompts" in side_by_side(RUNS, FigureOptions())["residual"].note
