"""Bands and whiskers of figures, and the numbers of a page, resample clusters where a label of prompts is named.

Copies of prompts that lie in a cluster each say no more than one of them, in every figure that makes intervals.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection, PolyCollection
from support.synthetic import in_books, replaced, without
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.pages.figures.kind import Drawing, draw_panel
from bathyscope.pages.figures.kit.summary import summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.head.answer import answer
from bathyscope.pages.page import report
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling

ONCE = complete_run(L=3, prompts=5, tokens=8)
COPIES = 3
MEAN = FigureOptions(prompts_shown=0, reduction="mean")
BOOKS = FigureOptions(prompts_shown=0, reduction="mean", cluster="book")


@cache
def copied() -> Run:
    """Every prompt so many times, each with a name of its own, in a book with its copies."""
    numbers, run = np.repeat(np.arange(5), COPIES), ONCE
    for name in [one for one in ONCE.measures if "prompt" in ONCE[one].sizes]:
        own = ONCE[name].isel(prompt=numbers)
        run = replaced(run, name, own.assign_coords(prompt_id=("prompt", [f"c{n}" for n in range(len(numbers))])))
    return in_books(run, [f"book {n}" for n in numbers])


def ends(drawing: Drawing) -> list[float]:
    """Everything with which a figure draws intervals: bands, whiskers, and bars of means."""
    found: list[float] = []
    for panel in drawing.panels:
        if panel.shared and "map" in panel.alt.lower():
            continue
        for ax in draw_panel(panel).axes:
            drawn = [one for one in ax.collections if isinstance(one, PolyCollection | LineCollection)]
            found += [value for one in drawn for path in one.get_paths() for value in path.vertices[:, 1]]
            found += [value for one in drawn for path in one.get_paths() for value in path.vertices[:, 0]]
            found += [value for line in ax.lines if line.get_label() == "interval" for value in line.get_xdata()]
    return found


@pytest.mark.parametrize("name", ["drop", "lens", "skip", "translated_lens", "drop_and_swap"])
def test_figures_of_copies_have_the_intervals_of_one_prompt_each(name: str) -> None:
    kind = FIGURES[name]
    once = ends(kind.drawing(ONCE, MEAN))
    assert len(once) > 4
    drawing = kind.drawing(copied(), BOOKS)
    np.testing.assert_allclose(ends(drawing), once, rtol=1e-6, atol=1e-9)
    assert "clusters of prompts by book" in drawing.note
    apart = kind.drawing(copied(), MEAN)
    assert not np.allclose(ends(apart), once, rtol=1e-3)


def test_the_rank_correlation_of_copies_is_that_of_one_prompt_each() -> None:
    kind, noise = FIGURES["prediction_fall"], 3 * np.random.default_rng(1).standard_normal((5, 4))
    said = []
    for run, options in ((ONCE, None), (copied(), BOOKS), (copied(), None)):
        noisy = np.repeat(noise, len(run["lens"].prompt_id) // 5, axis=0)
        kl = run["lens"]["kl_lens_final"] + xr.Variable(("prompt", "boundary"), noisy)
        lens = run["lens"].assign(kl_lens_final=kl)
        drawing = kind.drawing(replaced(run, "lens", lens), options)
        said.append(drawing.panels[0].alt)
    assert said[1] == said[0] != said[2]
    assert "its interval resamples clusters of prompts by book" in kind.drawing(copied(), BOOKS).note


def test_levels_of_copies_have_the_bands_of_one_prompt_each() -> None:
    once, together, apart = (
        [panel for panel in FIGURES["depth_score"].panels(run, options) if panel.name.startswith("by_level")]
        for run, options in ((ONCE, MEAN), (copied(), BOOKS), (copied(), MEAN))
    )
    assert once
    edges = [ends(Drawing(panels, "")) for panels in (once, together, apart)]
    np.testing.assert_allclose(edges[1], edges[0], rtol=1e-6)
    # copies of the only prompt of a level would be given a band
    assert len(edges[2]) > len(edges[0])


def test_every_interval_of_a_page_resamples_clusters_and_says_so(tmp_path: Path) -> None:
    run = in_books(without(ONCE, *(set(ONCE) - {"drop", "lens", "skip"})), "aabcd")
    member = np.array([0, 0, 1, 2, 3])
    path = report(run, tmp_path / "page.html", options=FigureOptions(prompts_shown=0, cluster="book"))
    page = re.sub(r"<svg.*?</svg>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    tokens = run["drop"]["n_tokens"].values - 1
    for cluster in (member, None):
        band = summarise(run["drop"]["kl"].values, tokens, MEAN, cluster)
        assert band.low is not None
        assert band.high is not None
        assert (f"({band.low[1]:.4g} to {band.high[1]:.4g})" in page) == (cluster is not None)
    found = answer(run, "book")
    assert found.headline == run.verdict_by("book").text
    assert found.trust[-1] == "Intervals resample clusters of prompts by book."
    assert found.trust[-1] in page
    assert found.headline.partition(". ")[0] in page
    added = (run["drop"]["loss"] - run["drop"]["baseline_loss"]).values
    costliest = int(added.mean(0).argmax())
    low, high = mean_interval(added[:, costliest], Sampling(cluster=member))
    assert f"block {costliest} ({added.mean(0)[costliest]:+.2g}, {low:+.2g} to {high:+.2g} nats)" in found.costly


def test_a_label_that_makes_no_clusters_is_refused_wherever_figures_are_drawn(tmp_path: Path) -> None:
    run, options = in_books(ONCE, "aabbb"), FigureOptions(cluster="book")
    for drawn in (
        lambda: report(run, tmp_path / "page.html", options=options),
        lambda: bathyscope.plot(run, "drop.kl", options=options),
        lambda: run.explore(cluster="book"),
    ):
        with pytest.raises(OptionError, match=r"cluster='book' \(--cluster\): the 5 prompts lie in 2 clusters"):
            drawn()
