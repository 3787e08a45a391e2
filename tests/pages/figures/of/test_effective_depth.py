from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support.artists import axes_titled, caption_of, drawn_from, laid_out_from, visible_texts
from support.synthetic import replaced, synthetic_run
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.of.effective_depth import FIGURE
from bathyscope.runs.run import Run
from bathyscope.statistics.effective_depth import ESTIMATORS

L = 12
MISSING = "interpolated_cosine"


def run_of(*names: str) -> Run:
    """A run whose estimates stand at 0.5, 1.0, 1.5 … blocks, one of them missing."""
    depth = 0.5 * np.arange(1, len(names) + 1)
    depth[[name == MISSING for name in names]] = np.nan
    made = {"depth": depth, "ratio": depth / L, "index": depth, "ci_low": depth - 0.3, "ci_high": depth + 0.4}
    data = {name: ("estimator", values) for name, values in made.items()}
    data["crossing_share"] = ("estimator", np.linspace(0.5, 1, len(names)))
    reasons = [f"{name} is missing" if name == MISSING else "" for name in names]
    data["reason"] = ("estimator", np.array(reasons, dtype=object))
    attrs = {"n_blocks": L, "level": 0.95, "resamples": 1000}
    return replaced(synthetic_run(L), "effective_depth", xr.Dataset(data, {"estimator": list(names)}, attrs))


RUN = run_of(*ESTIMATORS)
DATA = RUN["effective_depth"]
CHART = [
    "Cosines",
    *("as published", "interpolated"),
    "KL",
    *("as published", "interpolated"),
    "Top-k overlap",
    *("as published", "interpolated"),
    "Tokens",
    *("settle depth", "prediction depth"),
    "Skip effects (no depth)",
    "centre of mass",
]
HEADINGS = ["Cosines", "KL", "Top-k overlap", "Tokens", "Skip effects (no depth)"]
CURVES = ("cosine", "kl", "overlap")


def lines_of(run: Run) -> dict[float, list[tuple[float, ...]]]:
    """Drawn lines by their height in the chart, each as its x values."""
    ax = axes_titled(drawn_from(FIGURE, run), "Effective depth")
    drawn: dict[float, list[tuple[float, ...]]] = {}
    for line in ax.get_lines():
        height = float(np.atleast_1d(line.get_ydata())[0])
        drawn.setdefault(height, []).append(tuple(map(float, np.atleast_1d(line.get_xdata()))))
    return drawn


def test_estimators_of_one_curve_stand_together_under_its_name() -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN), "Effective depth")
    assert [label.get_text() for label in ax.get_yticklabels()] == CHART
    bold = [label.get_text() for label in ax.get_yticklabels() if label.get_fontweight() == "bold"]
    assert bold == []
    assert [text for text in CHART if text in HEADINGS] == HEADINGS


def test_the_readings_of_the_verdict_stand_on_top_and_the_rest_is_thin() -> None:
    run = complete_run(L)
    ax, verdict = axes_titled(drawn_from(FIGURE, run), "Effective depth"), run.verdict
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[:6] == [
        "Verdict",
        "half of the tokens keep their prediction",
        "90 % of the tokens keep their prediction",
        "average token keeps its prediction",
        "90 % of the effect on the output",
        "the same, at later tokens",
    ]
    marks = {
        float(np.asarray(line.get_ydata())[0]): line
        for line in ax.get_lines()
        if len(np.asarray(line.get_xdata())) == 1
    }
    readings = (verdict.half, verdict.tokens_90, verdict.readable, verdict.own, verdict.later)
    for place, reading in enumerate(readings, start=1):
        assert float(np.asarray(marks[place].get_xdata())[0]) == pytest.approx(reading.value)
        whisker = next(tuple(ends) for ends in lines_of(run)[float(place)] if len(ends) == 2)
        assert whisker == pytest.approx((reading.low, reading.high))
    others = [line for place, line in marks.items() if place > len(readings)]
    assert others
    assert all(line.get_markersize() < 0.7 * marks[1].get_markersize() for line in others)
    (panel,) = FIGURE.drawing(run).panels
    assert f"90 % of the effect on the output {verdict.own.value:.1f} (" in panel.alt


def test_no_text_of_all_estimators_leaves_the_panel() -> None:
    (panel,) = FIGURE.drawing(RUN).panels
    figure = draw_panel(panel)
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    for text, box in visible_texts(figure):
        inside = box.x0 >= -1 and box.x1 <= width + 1 and box.y0 >= -1 and box.y1 <= height + 1
        assert inside, text
    ax = axes_titled(figure, "Effective depth")
    assert ax.get_window_extent().width > 0.4 * width


def test_dots_and_whiskers_are_the_estimates() -> None:
    order = [
        *(f"{reading}{curve}" for curve in CURVES for reading in ("", "interpolated_")),
        *("settle", "prediction", "centre_of_mass"),
    ]
    places = [place for place, label in enumerate(CHART) if label not in HEADINGS]
    expected = {}
    for place, name in zip(places, order, strict=True):
        one = DATA.sel(estimator=name)
        if name != MISSING:
            expected[float(place)] = [(float(one["ci_low"]), float(one["ci_high"])), (float(one["depth"]),)]
    assert lines_of(RUN) == expected
    assert len(expected) == 8


def test_a_run_with_fewer_estimators_has_no_empty_lines() -> None:
    run = run_of("cosine", "kl", "centre_of_mass")
    ax = axes_titled(drawn_from(FIGURE, run), "Effective depth")
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [*CHART[:2], *CHART[3:5], *CHART[-2:]]
    assert lines_of(run).keys() == {1.0, 3.0, 5.0}


def test_shares_of_resamples_stand_beside_their_estimates() -> None:
    figure = laid_out_from(FIGURE, RUN)
    texts = [text for text, _ in visible_texts(figure)]
    assert [text for text in texts if text.endswith("%")].count("100%") == 1
    assert sum(text.endswith("%") for text in texts) == len(ESTIMATORS)


def test_missing_estimate_is_said_in_picture_and_caption() -> None:
    figure = laid_out_from(FIGURE, RUN)
    assert "no estimate" in [text for text, _ in visible_texts(figure)]
    assert "Cosine, interpolated: interpolated_cosine is missing." in caption_of(FIGURE, RUN)


def test_estimators_with_one_reason_share_a_sentence() -> None:
    data = DATA.copy(deep=True)
    data["reason"][:] = "an interval needs at least two prompts"
    said = caption_of(FIGURE, replaced(RUN, "effective_depth", data))
    assert said.count("an interval needs at least two prompts") == 1


def test_estimate_without_interval_has_no_whisker() -> None:
    data = DATA.copy(deep=True)
    data["ci_low"][:], data["ci_high"][:] = np.nan, np.nan
    drawn = lines_of(replaced(RUN, "effective_depth", data))
    assert [len(x) for lines in drawn.values() for x in lines] == [1] * 8


def test_axis_spans_all_boundaries() -> None:
    low, high = axes_titled(drawn_from(FIGURE, RUN), "Effective depth").get_xlim()
    assert low < 0
    assert L < high < L + 1


@pytest.mark.parametrize("n_blocks", [2, 126])
def test_no_two_texts_overlap(n_blocks: int) -> None:
    run = replaced(RUN, "effective_depth", DATA.assign_attrs(n_blocks=n_blocks))
    boxes = list(visible_texts(laid_out_from(FIGURE, run)))
    for number, (text, box) in enumerate(boxes):
        for other, beside in boxes[:number]:
            assert not box.overlaps(beside), (text, other)


def test_level_of_the_intervals_is_the_one_asked_for() -> None:
    run = replaced(RUN, "effective_depth", DATA.assign_attrs(level=0.8))
    assert "80% bootstrap intervals" in caption_of(FIGURE, run)
