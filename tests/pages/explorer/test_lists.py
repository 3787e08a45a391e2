"""The strip of blocks and the list of prompts in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.browser import Show
from support.explored import LENGTHS

from bathyscope.runs.run import Run

_BARS = "[...document.querySelectorAll('.strip g[aria-label=bar] rect')].map(bar => bar.getBoundingClientRect())"


def test_hover_tells_a_block_and_leaves_the_chosen_one(show: Show, page: Path) -> None:
    opened = show(page, hash_="#block=1")
    told = opened.page.locator(".strip + .told")
    assert told.inner_text().startswith("Block 1: ")
    opened.page.locator(".strip").first.scroll_into_view_if_needed()
    box = opened.page.evaluate(_BARS)[3]
    opened.page.mouse.move(box["left"] + box["width"] / 2, box["top"] + box["height"] / 2)
    assert told.inner_text().startswith("Block 3: ")
    assert opened.page.locator(".band").is_visible()
    assert opened.page.evaluate("location.hash") == "#block=1"
    opened.page.mouse.move(0, 0)
    assert told.inner_text().startswith("Block 1: ")
    assert not opened.page.locator(".band").is_visible()


def test_the_unit_stands_at_the_uppermost_tick_and_the_axis_is_in_plain_words(show: Show, page: Path) -> None:
    opened = show(page)
    view = opened.page.locator("[aria-labelledby=view-blocks]")
    labels = opened.page.evaluate(
        """[...document.querySelectorAll('.strip g[aria-label="y-axis tick label"] text')]
        .map(text => [text.getBoundingClientRect().top, text.textContent])"""
    )
    uppermost = min(labels)[1]
    assert uppermost.endswith(" nats")
    assert [text for _, text in labels if "nats" in text] == [uppermost]
    assert "bent" not in view.inner_text()


def test_the_list_of_prompts_has_a_mean_and_says_what_its_numbers_are(show: Show, page: Path, run: Run) -> None:
    opened = show(page)
    cells = opened.page.locator(".prompts tfoot tr").inner_text().split("\t")
    assert cells[0] == f"mean of {len(LENGTHS)}"
    losses = run["drop"]["baseline_loss"].values
    for cell, value in zip(cells[1:3], (np.mean(LENGTHS), losses.mean())):
        assert float(cell) == pytest.approx(float(value), rel=0.006)
    about = opened.page.locator("[aria-labelledby=view-prompts] > .note").last.inner_text()
    assert "loss: mean loss of its tokens, in nats" in about
    shares = opened.page.evaluate(
        """[...document.querySelectorAll('.prompts tbody tr td:nth-child(2)')]
        .map(cell => cell.style.getPropertyValue('--share'))"""
    )
    assert [float(share.removesuffix("%")) for share in shares] == pytest.approx(
        [100 * n / max(LENGTHS) for n in LENGTHS]
    )
    # the mean is of the prompts that are listed
    opened.page.get_by_label("kind").select_option(label="short")
    assert opened.page.locator(".prompts tfoot tr").inner_text().split("\t")[:2] == ["mean of 2", "10.5"]


def test_the_list_of_prompts_is_one_stop_of_the_tab_key(show: Show, page: Path) -> None:
    opened = show(page, hash_="#prompt=2")
    stops = """[...document.querySelectorAll('.prompts tbody button[tabindex="0"]')]
      .map(button => Number(button.closest('tr').dataset.prompt))"""
    focused = "Number(document.activeElement.closest('tr').dataset.prompt)"
    assert opened.page.evaluate(stops) == [2]
    opened.page.locator(".prompts tbody button").nth(2).focus()
    for key, prompt in (("ArrowDown", 3), ("ArrowDown", 4), ("ArrowDown", 4), ("Home", 0), ("End", 4), ("ArrowUp", 3)):
        opened.page.keyboard.press(key)
        assert opened.page.evaluate(focused) == prompt
        assert opened.page.evaluate(stops) == [prompt]
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("location.hash") == "#prompt=3"
