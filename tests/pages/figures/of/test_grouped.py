from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.artists import axes_titled, curve, visible_texts
from support.compared import a_run

import bathyscope
from bathyscope.pages.figures.of import grouped

CHOSEN = ["cosine", "interpolated_kl", "settle"]


@functools.cache
def found() -> xr.Dataset:
    run = a_run(prompts=13, labels={"hops": [2] * 6 + [3] * 6 + [4]})
    with pytest.warns(UserWarning, match="Groups of fewer than 5 prompts"):
        return bathyscope.group(run, "hops", estimators=CHOSEN, resamples=100, permutations=99)


@functools.cache
def drawn() -> Figure:
    return grouped.drawing(found()).alone()


def test_every_group_is_marked_in_the_line_of_every_estimator() -> None:
    ax = axes_titled(drawn(), "Depth by hops")
    for number, label in enumerate(("2 (6)", "3 (6)", "4 (1)")):
        x, y = curve(ax, label)
        np.testing.assert_array_equal(x, found()["value"].isel(group=number).values)
        np.testing.assert_array_equal(np.round(y), range(len(CHOSEN)))
    marks = [curve(ax, label)[1][0] for label in ("2 (6)", "3 (6)", "4 (1)")]
    assert marks == sorted(marks)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        *("cosine", "KL, interpolated", "settle depth of tokens"),
    ]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_whiskers_are_the_intervals_and_one_prompt_has_none() -> None:
    ax = axes_titled(drawn(), "Depth by hops")
    for number, bars in enumerate(ax.collections):
        own = found().isel(group=number)
        ends = np.array([(path.vertices[0, 0], path.vertices[-1, 0]) for path in bars.get_paths()])
        np.testing.assert_allclose(ends, np.stack([own["ci_low"], own["ci_high"]], 1))
    assert np.isnan(found().isel(group=2)["ci_low"]).all()


def test_groups_of_any_name_can_be_told_apart_and_none_acts() -> None:
    names = ["\x1b[31m" + "long " * 2000, "two\nlines"]
    run = a_run(prompts=12, labels={"mood": [names[0]] * 6 + [names[1]] * 6})
    data = bathyscope.group(run, "mood", estimators=CHOSEN, resamples=50, permutations=19)
    texts = [text for text, _ in visible_texts(grouped.drawing(data).alone())]
    assert {r"\x1b[31mlong long long … (6)", r"two\nlines (6)"} <= set(texts)


def test_words_say_what_is_seen() -> None:
    said = grouped.drawing(found()).note
    assert said.startswith("Effective depth ratio, blocks done/L, by hops.")
    assert "differences between groups have a p-value below 0.05" in said
    (panel,) = grouped.drawing(found()).panels
    value = found()["value"].sel(estimator="settle", group="4").item()
    assert f"4 {value:.2f}." in panel.alt
    assert axes_titled(drawn(), "Depth by hops").get_xlabel() == "effective depth ratio"
