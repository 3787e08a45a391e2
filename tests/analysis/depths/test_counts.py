"""How many prompts a comparison speaks of: those of its head, each copy of a prompt once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.analysis.depths.sentences import prompts_needed, sentence, support
from bathyscope.pages.comparison.next_step import comparison_facts
from bathyscope.runs.run import Run

PROMPTS = 10


def pair() -> list[Run]:
    """Two runs of the same prompts, under two models that differ by little."""
    runs = []
    for name in ("one", "two"):
        run = complete_run(L=6, prompts=PROMPTS)
        lens = run["lens"]
        if name == "two":
            rng = np.random.default_rng(1)
            kept = np.clip(
                lens["top1_kept"]
                + 0.1 * xr.DataArray(rng.normal(size=PROMPTS), dims="prompt") * (lens["boundary"] < 6),
                0,
                1,
            )
            run = replaced(run, "lens", lens.assign(top1_kept=kept))
        identity = {**run.manifest["identity"], "model": f"own/{name}"}
        runs.append(Run(run.tree, {**run.manifest, "identity": identity}))
    return runs


@pytest.mark.parametrize("copies", [2, 6])
def test_copies_add_nothing_to_what_is_proved(copies: int) -> None:
    comparison = bathyscope.compare(pair(), resamples=100)
    changed = comparison.readings.assign(n_prompts=copies * comparison.readings["n_prompts"])
    copied = replace(comparison, readings=changed)
    assert prompts_needed(copied) == prompts_needed(comparison) != ""
    assert f"{PROMPTS} different prompts" in support(copied)
    assert f"the same {PROMPTS} prompts" in support(comparison)


def test_prompts_that_all_agree_do_not_tell_how_many_are_needed() -> None:
    one, two = pair()
    lens = one["lens"]
    kept = np.clip(lens["top1_kept"].isel(prompt=0) + 0 * lens["top1_kept"], 0, 1)
    shifted = np.clip(kept - 0.2 * (lens["boundary"] < 6), 0, 1)
    runs = [
        replaced(run, "lens", run["lens"].assign(top1_kept=values)) for run, values in ((one, kept), (two, shifted))
    ]
    comparison = bathyscope.compare(runs, resamples=100)
    assert float(comparison.readings["difference"].sel(reading="half").item()) != 0
    assert prompts_needed(comparison) == ""
    assert "; they all agree, which does not tell how many would be needed" in sentence(comparison)


def test_no_number_of_prompts_is_named_for_a_difference_of_nothing() -> None:
    """Two runs of one model: more prompts of a difference of 0 prove none, however many."""
    one, _ = pair()
    other = Run(one.tree, {**one.manifest, "identity": {**one.manifest["identity"], "model": "own/two"}})
    comparison = bathyscope.compare([one, other], resamples=100)
    assert float(comparison.readings["difference"].sel(reading="half").item()) == 0
    text = sentence(comparison)
    assert "; no number of prompts proves a difference of 0" in text
    assert "would need" not in text


def test_the_head_counts_its_own_prompts() -> None:
    """Estimators may be of fewer prompts than the readings, as effects of short prompts are."""
    comparison = bathyscope.compare(pair(), estimators=["centre_of_mass"], resamples=100)
    fewer = replace(comparison, data=comparison.data.assign(n_prompts=0 * comparison.data["n_prompts"] + 3))
    assert f"the same {PROMPTS} prompts" in support(fewer)
    assert prompts_needed(fewer) == prompts_needed(comparison)


def test_it_is_the_heads_own_reason_that_leaves_it_untested() -> None:
    """And not that of an estimator which stands first, whose curve crosses nothing."""
    why = "an interval needs at least two different prompts with values on each side"
    one, two = (run.select(prompts=[0]) for run in pair())
    runs = []
    for run in (one, two):
        # a cosine that is nowhere below 0 has no depth, for a reason of its own
        residual = run["residual"]
        runs.append(replaced(run, "residual", residual.assign({n: abs(residual[n]) for n in residual if "cos_" in n})))
    comparison = bathyscope.compare(runs, resamples=100)
    assert "no sign change" in str(comparison.data["reason"].sel(estimator="cosine").item())
    assert sentence(comparison).startswith(f"No difference of depth can be tested: {why} (half of the tokens keep ")
    assert comparison.readings["reason"].sel(reading="half").item() == why
    assert "No estimator has a difference with an interval." in comparison.text
    assert "Of the estimators" not in comparison.text


def test_what_is_needed_is_counted_in_what_is_drawn() -> None:
    runs = pair()
    labels = [f"book {number // 2}" for number in range(PROMPTS)]
    for run in runs:
        prompts = run.prompts
        items = tuple(replace(prompt, labels={"book": label}) for prompt, label in zip(prompts, labels))
        run.__dict__["prompts"] = replace(prompts, items=items)
        run.manifest["identity"]["dataset"] = "gsm8k:10"
    clustered = bathyscope.compare(runs, resamples=100, cluster="book")
    assert prompts_needed(clustered).endswith(" clusters")
    assert f"on {PROMPTS} prompts in 5 clusters (" in sentence(clustered)
    assert f"; {prompts_needed(clustered)} would be needed" in sentence(clustered)
    count = int(prompts_needed(clustered).split()[1].replace(",", ""))
    step = comparison_facts(clustered, 0)[-1]
    assert f"survey both on about {count:,} clusters of prompts:" in step.text
    # a cluster is of two prompts
    assert f"--prompts gsm8k:{2 * count} " in step.command
