"""Forest plot, ratio against size and the runs' curves: what is drawn is what was found."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from support.compared import a_run

import bathyscope
from bathyscope.pages.comparison import curves, forest, size
from bathyscope.pages.figures.kind import Panel, draw_panel

RUNS = [a_run(model=f"own/m{blocks}", blocks=blocks, shift=shift) for blocks, shift in ((8, 0), (16, 0.1), (32, 0.2))]
FOUND = bathyscope.compare(RUNS[:2], resamples=100)
SIZE = bathyscope.compare(RUNS, question="size", resamples=100)


def drawn(panel: Panel) -> Figure:
    figure = draw_panel(panel)
    figure.draw_without_rendering()
    assert not plt.get_fignums()
    return figure


def test_the_forest_has_a_dot_and_whisker_for_every_difference() -> None:
    [panel] = forest.drawing(FOUND).panels
    [ax] = drawn(panel).axes
    there = FOUND.data.isel(comparison=0).dropna("estimator", subset=["difference"])
    dots = [line.get_xydata() for line in ax.get_lines() if line.get_marker() == "o"]
    np.testing.assert_allclose(np.concatenate(dots)[:, 0], there["difference"].values)
    whiskers = {tuple(line.get_xdata()) for line in ax.get_lines() if len(line.get_xdata()) == 2 and line.get_alpha()}
    assert whiskers == set(zip(there["ci_low"].values, there["ci_high"].values))
    assert ax.get_yticklabels()[0].get_text() == "cosine"
    assert panel.alt.startswith("Forest plot, m16 − m8: paired, 6 prompts: cosine +")


def test_dots_are_filled_where_the_interval_excludes_zero() -> None:
    found = bathyscope.compare([RUNS[0], a_run(model="own/n8", blocks=8, seed=5)], resamples=100)
    [ax] = drawn(forest.drawing(found).panels[0]).axes
    excluded = (found.data["ci_low"] > 0) | (found.data["ci_high"] < 0)
    filled = [line.get_color() == line.get_markerfacecolor() for line in ax.get_lines() if line.get_marker() == "o"]
    assert filled == excluded.values[0][found.data["difference"].notnull().values[0]].tolist()
    assert not all(filled)


def test_no_panel_without_a_difference() -> None:
    late = bathyscope.compare([RUNS[0], a_run(model="own/b", shift=9)], estimators=["kl"], resamples=50)
    assert forest.drawing(late).panels == []


def test_ratios_stand_at_their_number_of_blocks() -> None:
    [panel] = size.drawing(SIZE).panels
    [ax] = drawn(panel).axes
    assert ax.get_title(loc="left") == "Ratio against size, stories.jsonl"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["8", "16", "32"]
    line = next(line for line in ax.get_lines() if line.get_linestyle() == "--" and len(line.get_xdata()) == 2)
    ratio = SIZE.runs["ratio"].sel(estimator="interpolated_cosine").values
    slope, offset = np.polyfit([3, 4, 5], ratio, 1)
    np.testing.assert_allclose(line.get_ydata(), [offset + 3 * slope, offset + 5 * slope])
    assert "with 16 blocks" in panel.alt
    same = bathyscope.compare([RUNS[0], a_run(model="own/b", blocks=8)], resamples=50)
    assert size.drawing(same).panels == []


def test_the_curves_of_the_runs_stand_over_the_share_of_the_depth() -> None:
    panels = {panel.name: panel for panel in curves.drawing(SIZE).panels}
    assert list(panels) == ["cosine", "kl", "overlap"]
    [ax] = drawn(panels["kl"]).axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    marks = {line.get_color(): line for line in ax.get_lines() if line.get_linestyle() == "None"}
    for name, run in zip(["m8", "m16", "m32"], RUNS):
        curve = lines[f"{name} (L = {run['residual'].sizes['block']})"]
        kl = run["lens"]["kl_lens_final"].values[:, :-1]
        mean = np.average(kl, axis=0, weights=run["residual"]["n_tokens"].values)
        np.testing.assert_allclose(curve.get_ydata(), mean / mean.max())
        np.testing.assert_allclose(curve.get_xdata(), np.arange(len(mean)) / len(mean))
        ratio = SIZE.runs["ratio"].sel(run=name, estimator="kl").item()
        assert marks[curve.get_color()].get_xdata() == pytest.approx([ratio])
        assert f"{name} (L = {len(mean)}) {ratio:.2f}" in panels["kl"].alt
    assert len(marks) == 3


def test_marks_are_drawn_in_the_order_of_the_runs() -> None:
    """That of a set differs from one process to the next, and with it the bytes of a page."""
    for panel in curves.drawing(SIZE).panels:
        lines = drawn(panel).axes[0].get_lines()
        marked = [line.get_color() for line in lines if line.get_linestyle() == "None"]
        assert len(marked) == 3
        assert marked == [line.get_color() for line in lines if "(L = " in str(line.get_label())]


def test_a_run_without_a_crossing_has_no_mark() -> None:
    late = bathyscope.compare([RUNS[0], a_run(model="own/b", shift=9)], resamples=50)
    (panel,) = (panel for panel in curves.drawing(late).panels if panel.name == "kl")
    assert "Effective depth ratio by this curve: m8 (L = 8)" in panel.alt
    assert "hollow, at the top" in drawn(panel).axes[0].get_xlabel()
    none = bathyscope.compare([a_run(shift=9), a_run(model="own/b", shift=9)], resamples=50)
    (bare,) = (panel for panel in curves.drawing(none).panels if panel.name == "kl")
    assert "ffective depth ratio" not in bare.alt + drawn(bare).axes[0].get_xlabel()
    assert sum(line.get_linestyle() == "None" for line in drawn(panel).axes[0].get_lines()) == 1
