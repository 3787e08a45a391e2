"""Drop against swap: means and medians over places, and differences paired by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from support.synthetic import replaced, synthetic_run

from bathyscope.analysis.depths.milder import milder
from bathyscope.pages.figures.of.drop_and_swap import FIGURE, drop_and_swap
from bathyscope.pages.figures.options import FigureOptions

DRAW = np.random.default_rng(3)
PROMPTS = DRAW.normal(size=(12, 1))
DROP = 0.5 + PROMPTS + DRAW.normal(size=(12, 6)) * 0.01
SWAP = 0.8 + PROMPTS + DRAW.normal(size=(12, 5)) * 0.01
TOKENS = DRAW.integers(5, 20, 12).astype(float)


def test_means_over_tokens_and_places() -> None:
    found = drop_and_swap(DROP, SWAP, TOKENS)
    expected = [np.average(one.mean(1), weights=TOKENS) for one in (DROP, SWAP)]
    assert found.drop.estimate == pytest.approx(expected[0])
    assert found.swap.estimate == pytest.approx(expected[1])
    assert found.difference.estimate == pytest.approx(expected[1] - expected[0])


def test_the_difference_is_paired() -> None:
    """Prompts differ by 1, blocks and kinds by a hundredth: pairing takes what a prompt does to both away."""
    found = drop_and_swap(DROP, SWAP, TOKENS)
    alone = found.drop.ci_high - found.drop.ci_low
    assert alone > 0.5
    assert found.difference.ci_high - found.difference.ci_low < 0.05
    assert found.difference.ci_low < 0.3 < found.difference.ci_high or found.difference.estimate == pytest.approx(
        0.3, abs=0.02
    )


def test_a_median_leaves_the_first_block_aside() -> None:
    drop, swap = DROP.copy(), SWAP.copy()
    drop[:, 0] += 100
    found = drop_and_swap(drop, swap, TOKENS, np.median)
    weighted = [np.median(np.average(one, axis=0, weights=TOKENS)) for one in (drop, swap)]
    assert found.drop.estimate == pytest.approx(weighted[0])
    assert found.difference.estimate == pytest.approx(weighted[1] - weighted[0])
    assert drop_and_swap(drop, swap, TOKENS).drop.estimate > 10


def test_one_prompt_has_no_interval() -> None:
    found = drop_and_swap(DROP[:1], SWAP[:1], TOKENS[:1])
    assert found.difference.estimate == pytest.approx(SWAP[0].mean() - DROP[0].mean())
    assert np.isnan(found.difference.ci_low)


def test_no_interval_of_a_share_leaves_what_shares_can_be() -> None:
    """Prompts that keep nearly every token, and one that does not: Student's interval alone would end above 1."""
    run = synthetic_run(6, prompts=5)
    for name in ("drop", "swap"):
        data = run[name].copy(deep=True)
        data["top1_agreement"].values[:] = np.array([1.0, 1.0, 1.0, 1.0, 0.8])[:, None]
        run = replaced(run, name, data)
    panels = {panel.name: panel for panel in FIGURE.panels(run, FigureOptions())}
    shown = panels["top1_agreement"].shared[0].content
    for ends in (shown.drop, shown.swap):
        assert 0.8 < ends.ci_low < 0.96 < ends.ci_high <= 1
    table = milder(run).sel(quantity="top1_agreement")
    assert (table["difference_low"] >= -1).all()
