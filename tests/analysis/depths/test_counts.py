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
    assert "; the difference is 0 here, which does not tell how many would be needed" in text
    assert "would need" not in text


def test_the_head_counts_its_own_prompts() -> None:
    """Estimators may be of fewer prompts than the readings, as effects of short prompts are."""
    comparison = bathyscope.compare(pair(), estimators=["centre_of_mass"], resamples=100)
    fewer = replace(comparison, data=comparison.data.assign(n_prompts=0 * comparison.data["n_prompts"] + 3))
    assert f"the same {PROMPTS} prompts" in support(fewer)
    assert prompts_needed(fewer) == prompts_needed(comparison)
