"""Swap against drop, paired by prompt."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support.compared import a_run

from bathyscope.analysis.depths.milder import milder
from bathyscope.errors import OptionError
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import paired_difference
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling

PROMPTS, BLOCKS = 12, 5


def a_run_with(swapped: list[int] | None = None, gain: float = -0.2, **kept: str) -> Run:
    """Five blocks dropped, four pairs swapped; swap's KL is lower by ``gain``, and the top-1 share higher by 0.1."""
    draw = np.random.default_rng(0)
    pairs = list(range(BLOCKS - 1)) if swapped is None else swapped
    kl = draw.uniform(1, 2, size=(PROMPTS, BLOCKS))
    exchanged = (kl[:, :-1] + kl[:, 1:])[:, pairs] / 2 + gain + draw.normal(0, 0.1, size=(PROMPTS, len(pairs)))
    tokens, books = draw.integers(5, 30, size=PROMPTS), np.arange(PROMPTS) // 3
    run = a_run(prompts=PROMPTS, labels={"book": books})
    coords = {name: values for name, values in run["lens"].coords.items() if values.dims == ("prompt",)}

    def measured(index: str, values: np.ndarray, places: list[int]) -> xr.Dataset:
        data = {"kl": (("prompt", index), values), "top1_agreement": (("prompt", index), 0.9 - values / 4)}
        return xr.Dataset({**data, "n_averaged": ("prompt", tokens)}, {**coords, index: places})

    made = {"drop": measured("dropped", kl, list(range(BLOCKS))), "swap": measured("swapped", exchanged, pairs)}
    tree = xr.DataTree.from_dict({f"/{name}": made[name] for name in made if kept.get("only", name) == name})
    return Run(tree, run.manifest)


def test_the_difference_is_paired_by_prompt_at_each_place_and_over_all() -> None:
    run = a_run_with()
    found = milder(run, resamples=4000)
    assert found["place"].values.tolist() == ["0", "1", "2", "3", "all"]
    drop, swap = run["drop"].kl.values, run["swap"].kl.values
    weights = np.ones(run["drop"].sizes["prompt"])  # each prompt counts the same, whatever its tokens
    between = swap - (drop[:, :-1] + drop[:, 1:]) / 2
    one = found.sel(quantity="kl")
    np.testing.assert_allclose(one.difference[:-1], weights @ between / weights.sum())
    np.testing.assert_allclose(one.difference[-1], weights @ between.mean(axis=1) / weights.sum())
    np.testing.assert_allclose(one.swapped[:-1], weights @ swap / weights.sum())
    np.testing.assert_allclose(
        one.dropped[-1], weights @ ((drop[:, :-1] + drop[:, 1:]) / 2).mean(axis=1) / weights.sum()
    )
    reading = [Reading(v.mean(axis=1)[:, None], weights, lambda m: m[..., 0]) for v in (swap - between, swap)]
    wanted = paired_difference(*reading, Sampling(4000))
    overall = one.sel(place="all")
    assert (float(overall.difference_low), float(overall.p_value)) == pytest.approx((wanted.ci_low, wanted.p_value))
    assert float(overall.difference_high) < 0, "swap is milder"
    assert float(found.difference.sel(quantity="top1_agreement", place="all")) > 0
    unpaired = stats.ttest_ind(swap.mean(axis=1), (swap - between).mean(axis=1)).pvalue
    assert float(overall.p_value) < unpaired / 10


def test_clusters_and_places_that_both_measured() -> None:
    run = a_run_with(swapped=[1, 3])
    plain, books = milder(run, resamples=200), milder(run, cluster="book", resamples=200)
    assert plain["place"].values.tolist() == ["1", "3", "all"]
    np.testing.assert_array_equal(plain.difference, books.difference)
    assert (plain.difference_low != books.difference_low).any()


def test_what_is_missing_is_said() -> None:
    with pytest.raises(OptionError, match=r"This run has no swap; it has drop\. Survey with"):
        milder(a_run_with(only="drop"))
    alone = a_run_with(swapped=[1])
    tree = xr.DataTree.from_dict({"/swap": alone["swap"], "/drop": alone["drop"].sel(dropped=[0, 1])})
    with pytest.raises(OptionError, match="No pair of blocks was both exchanged and left out"):
        milder(Run(tree, alone.manifest))


def test_means_in_the_place_of_blocks_are_not_compared_with_swaps() -> None:
    run = a_run_with()
    assert {panel.name for panel in FIGURES["drop_and_swap"].panels(run)} == {"kl", "top1_agreement"}
    run.manifest["identity"]["measures"]["drop"] = {"replace": "mean"}
    with pytest.raises(OptionError, match=r"drop put a mean in the place of each contribution \(drop\.replace=mean\)"):
        milder(run)
    assert not FIGURES["drop_and_swap"].panels(run)
