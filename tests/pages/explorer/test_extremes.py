"""Pages of runs that lack or exceed what is usual, in a real browser: drawn sensibly, or said in a sentence.

What the views of tokens make of such runs is tested with the skyline, and pictures alone with the profile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import waves, zoo
from support.browser import Opened, Show, opened
from support.profiled import profiled_run
from support.synthetic import replaced, synthetic_run, without

import bathyscope
from bathyscope.pages.explorer.still import still_html, still_picture
from bathyscope.runs.run import Run
from bathyscope.surgery.plan.plan import Plan

pytestmark = pytest.mark.thorough

EVERY_SCRIPT = "שלום עולם 👩\u200d🚀 e\u0301 \x07\u202e\x1b[31m <b>x</b> " + "a-long-name-without-end" * 4
SCREENS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]


def with_nan(measure: str) -> Run:
    """A run in which no reading of a measure is a number."""
    run = profiled_run(12)
    return replaced(run, measure, run[measure] * np.nan)


def controlled() -> Run:
    """Controls of another number of blocks, and of other prompts, which cannot be paired."""
    controls = {
        **{f"untrained-{seed}": profiled_run(7, readable=6 - seed, measures=("lens", "skip")) for seed in range(3)},
        "shuffled_blocks-0": profiled_run(12, prompts=2, measures=("lens", "skip")),
    }
    return profiled_run(12, readable=8.0, controls=controls)


RUNS: dict[str, Callable[[], Run]] = {
    "no lens": lambda: profiled_run(measures=("skip", "drop")),
    "no drop": lambda: profiled_run(measures=("lens", "skip")),
    "one prompt": lambda: profiled_run(12, prompts=1),
    "one block": lambda: profiled_run(1, readable=0.6),
    "126 blocks": lambda: profiled_run(126, readable=100.0),
    "200 prompts": lambda: profiled_run(12, prompts=200),
    "no number of the lens": lambda: with_nan("lens"),
    "no number of drop": lambda: with_nan("drop"),
    "no number of skip": lambda: with_nan("skip"),
    "controls of other lengths": controlled,
    "every script in names": lambda: profiled_run(12, model=EVERY_SCRIPT, dataset=EVERY_SCRIPT),
}


def assert_sound(page: Opened, width: int) -> None:
    """Silent, no wider than the screen, no text cut or over another, and no number that is none."""
    page.page.wait_for_timeout(150)
    assert page.geometry() == []
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.said == []
    head = page.page.locator("main").inner_text()
    assert not re.search(r"\bnan\b|\bNone\b|undefined", head, re.IGNORECASE), head
    sentence = page.page.locator(".headline").first.inner_text()
    assert sentence.endswith(".")
    assert len(sentence) > 20


@pytest.mark.parametrize("which", RUNS)
def test_a_page_of_such_a_run_is_sound_on_every_screen(show: Show, tmp_path: Path, which: str) -> None:
    path = bathyscope.report([RUNS[which]()], tmp_path / "page.html")
    for width, scheme in SCREENS:
        page = show(path, width=width, color_scheme=scheme)
        page.unfold()
        assert_sound(page, width)
    assert page.axe() == []


def test_controls_of_other_prompts_are_told(show: Show, tmp_path: Path) -> None:
    page = show(bathyscope.report([controlled()], tmp_path / "page.html"))
    assert "1 control is of other prompts or without depths" in page.page.locator(".basis").inner_text()
    assert page.page.locator(".bp-wide").get_by_text("grey: 3 untrained, 1 shuffled blocks").count() == 1


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_three_runs_with_long_names_are_compared_on_every_screen(
    show: Show, tmp_path: Path, width: int, scheme: str
) -> None:
    names = ["deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B-base", EVERY_SCRIPT, "Llama-3.1-8B-" + "x" * 80]
    runs = [without(synthetic_run(6 + n, 3, model=name), "repeat", "swap") for n, name in enumerate(names)]
    page = show(bathyscope.report(runs, tmp_path / "page.html"), width=width, color_scheme=scheme)
    page.unfold()
    assert_sound(page, width)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A real choice of two blocks of five."""
    prompts = [zoo.prompts(zoo.build("llama"), (12, 9, 12, 10) * 3, seed) for seed in (1, 2)]
    return bathyscope.prune(waves.loaded("llama"), *prompts, drop=2, random=3, progress=False)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_a_plan_without_a_run_is_a_page(chromium: Any, plan: Plan, tmp_path: Path, width: int, scheme: str) -> None:
    path = bathyscope.report([plan], tmp_path / "page.html")
    with opened(chromium, path, width=width, color_scheme=scheme) as page:
        page.unfold()
        assert_sound(page, width)
        assert page.axe() == []
        assert page.asked == [f"file://{path}"]


def test_tiles_of_a_plan_tell_how_often_resampled_prompts_leave_each_block_out(
    chromium: Any, plan: Plan, tmp_path: Path
) -> None:
    shares = dict(zip(plan.blocks_again.iloc[:, 0], plan.blocks_again["chosen_again"]))
    assert 0 < min(share for share in shares.values() if share) < 1, "some blocks are chosen at times"
    with opened(chromium, bathyscope.report([plan], tmp_path / "page.html")) as page:
        texts = page.page.locator(".bp-wide text").all_text_contents()
        wide = [text for text in texts if re.fullmatch(r"\d+ %", text)]
        assert wide == [f"{100 * shares[f'drop:{block}']:.0f} %" for block in range(5)]
        assert "% of resamples of the calibration prompts" in " ".join(texts)
        choice = 100 * plan.chosen_again
        assert f"{choice:.0f} % of resamples choose the same" in page.page.locator(".basis").inner_text()


def test_a_notebook_without_widgets_shows_the_picture(chromium: Any, tmp_path: Path) -> None:
    """As a site shows a stored notebook: HTML without scripts."""
    run = profiled_run(12)
    path = tmp_path / "cell.html"
    html = still_html([run], ["<b>mine</b>"], still_picture(run)) + run._repr_html_()
    path.write_text(f"<!doctype html><meta charset=utf-8><body style='width: 40rem'>{html}", encoding="utf-8")
    with opened(chromium, path, java_script_enabled=False) as page:
        image = page.page.locator("img")
        assert image.is_visible()
        box = image.bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert page.page.get_by_text("<b>mine</b>").is_visible()
        assert page.page.locator("svg.bp").filter(visible=True).count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_opened_alone_are_whole(chromium: Any, tmp_path: Path, scheme: str) -> None:
    run = profiled_run(30, model=EVERY_SCRIPT)
    bathyscope.badge(run, tmp_path / "badge.svg")
    bathyscope.card(run, tmp_path / "card.md")
    for name in ("badge.svg", "card.svg"):
        with opened(chromium, tmp_path / name, color_scheme=scheme) as page:
            assert page.geometry() == []
            assert page.said == []
            assert page.asked == [f"file://{tmp_path / name}"]
