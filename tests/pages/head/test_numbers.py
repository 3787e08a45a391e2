"""The numbers of a profile are the run's, whatever the run has."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.profiled import profiled_run
from support.synthetic import replaced, without
from support.synthetic_tokens import complete_run

from bathyscope.errors import OptionError
from bathyscope.measures.curves import in_blocks_done, one_norm
from bathyscope.pages.head.numbers import read_profile
from bathyscope.runs.run import Run


def test_every_number_is_the_runs() -> None:
    run = complete_run(L=6, prompts=5)
    profile = read_profile(run)
    kept = one_norm(run["lens"])["top1_kept"]
    tokens = run["lens"]["n_averaged"] if "n_averaged" in run["lens"] else run["lens"]["n_tokens"]
    assert profile.share is not None
    assert profile.share.places == tuple(range(7))
    np.testing.assert_allclose(profile.share.mean, (kept * tokens).sum("prompt").values / float(tokens.sum()))
    assert all(
        low <= mean <= high for low, mean, high in zip(profile.share.low, profile.share.mean, profile.share.high)
    )
    cost = run["drop"]["loss"] - run["drop"]["baseline_loss"]
    assert profile.costs is not None
    np.testing.assert_allclose(profile.costs.mean, cost.mean("prompt").values)
    verdict = run.verdict
    for reading in (verdict.half, verdict.own):
        mark = profile.mark(reading.name)
        assert mark is not None
        assert (mark.value, mark.low, mark.high) == (reading.value, reading.low, reading.high)
    depths = in_blocks_done(run["effective_depth"])["depth"]
    assert profile.criteria == {name: float(depths.sel(estimator=name)) for name in profile.criteria}
    assert (profile.n_blocks, profile.prompts) == (6, 5)
    assert profile.tokens == int(run["lens"]["n_tokens"].sum())


@pytest.mark.parametrize("measures", [("lens",), ("skip",), ("drop",), ("lens", "drop"), ("skip", "drop")])
def test_what_was_not_measured_is_missing_and_nothing_else(measures: tuple[str, ...]) -> None:
    profile = read_profile(profiled_run(measures=measures))
    assert (profile.share is None) == ("lens" not in measures)
    assert (profile.costs is None) == ("drop" not in measures)
    # without a lens there is no verdict, and so no depth
    expected = [name for name, measure in (("half", "lens"), ("own", "skip")) if {measure, "lens"} <= set(measures)]
    assert [mark.name for mark in profile.marks] == expected
    assert profile.empty == (measures == ("skip",))


def test_one_prompt_has_no_intervals() -> None:
    profile = read_profile(profiled_run(prompts=1))
    assert profile.share is not None
    assert all(math.isnan(low) for low in profile.share.low)
    assert all(math.isnan(mark.low) for mark in profile.marks)


def test_missing_values_are_not_counted() -> None:
    run = profiled_run(prompts=4, old=True)
    lens, drop = run["lens"].copy(deep=True), run["drop"].copy(deep=True)
    lens["top1_agreement"].values[0] = np.nan
    drop["loss"].values[:, 2] = np.nan
    profile = read_profile(replaced(replaced(run, "lens", lens), "drop", drop))
    assert profile.share is not None
    np.testing.assert_allclose(profile.share.mean, np.nanmean(lens["top1_agreement"].values, axis=0))
    assert profile.costs is not None
    assert math.isnan(profile.costs.at(2))
    unread = lens.copy(deep=True)
    unread["top1_agreement"].values[:] = np.nan
    assert read_profile(replaced(run, "lens", unread)).share is None


def untrained(depth: float, **options: Any) -> Run:
    return profiled_run(readable=depth, last=0.2, measures=("lens", "skip"), **options)


def test_controls_are_means_over_seeds_of_the_same_prompts() -> None:
    run = profiled_run(controls={f"untrained-{seed}": untrained(5.0 + 0.1 * seed) for seed in range(3)})
    (control,) = read_profile(run).controls
    assert (control.kind, len(control.curves), control.n_blocks) == ("untrained", 3, (6, 6, 6))
    assert {mark.name: mark.value for mark in control.marks} == {
        "half": pytest.approx(run.verdict.half.nulls["untrained"].value),
        "own": pytest.approx(run.verdict.own.nulls["untrained"].value),
    }


@pytest.mark.parametrize("as_many", [False, True])
def test_a_control_of_other_prompts_is_drawn_and_not_subtracted(as_many: bool) -> None:
    """Whether they are as many or not."""
    other = untrained(5.0, prompts=5 if as_many else 3)
    manifest = {**other.manifest, "identity": {**other.manifest["identity"], "prompt_hash": "ab" * 32}}
    run = profiled_run(controls={"untrained-0": replace(other, manifest=manifest), "untrained-1": untrained(5.0)})
    profile = read_profile(run)
    assert len(profile.controls[0].curves) == 2
    assert profile.verdict is not None
    assert profile.verdict.half.nulls["untrained"].seeds == 1
    assert profile.notes == (
        "1 control is of other prompts or without depths, and left out of every difference from the run.",
    )


def test_a_part_of_the_blocks_has_no_profile() -> None:
    with pytest.raises(OptionError, match="Pictures are of the whole depth"):
        read_profile(complete_run(L=4, prompts=3).select(blocks="0-1"))


def test_a_run_without_any_of_it_is_empty() -> None:
    run = complete_run(L=4, prompts=3)
    bare = without(run, *(name for name in run if name != "residual"))
    assert read_profile(bare).empty
    assert read_profile(replace(bare, controls={})).marks == ()
