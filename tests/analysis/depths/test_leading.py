"""What leads a comparison: the verdict and the costs of blocks, against the statistics and by planted changes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.synthetic import replaced, without
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.analysis.depths.sentences import sentence
from bathyscope.analysis.depths.tables import leading_tables
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import paired_difference
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.sampling import Sampling

RUN = complete_run(L=6, prompts=12)


def other(*, later: float = 0.0, costlier: int | None = None, **changes: object) -> Run:
    """The same prompts under a model whose tokens are final later, and which needs one block more."""
    lens, drop = RUN["lens"], RUN["drop"]
    rng = np.random.default_rng(3)
    kept = lens["top1_kept"].copy(data=np.clip(lens["top1_kept"] - 2 * later * (lens["boundary"] < 6), 0, 1))
    # not by the same in every prompt
    depth = lens["prediction_depth"] + later * (1 + 1e-8 * np.arange(lens.sizes["prompt"]))
    lens = lens.assign(prediction_depth=depth, top1_kept=kept)
    loss = drop["loss"].copy(deep=True)
    if costlier is not None:
        loss.loc[{"dropped": costlier}] += 0.5 + 0.01 * rng.normal(size=12)
    run = replaced(replaced(RUN, "lens", lens), "drop", drop.assign(loss=loss))
    manifest = {**RUN.manifest, "identity": {**RUN.manifest["identity"], "model": "own/other", **changes}}
    return Run(run.tree, manifest)


@pytest.mark.parametrize("later", [0.3, 0.0])
@pytest.mark.parametrize(
    ("level", "named"), [(0.5, " by intervals of 50%"), (0.95, ""), (0.999, " by intervals of 99.9%")]
)
def test_a_headline_names_a_level_that_is_not_the_usual_one(later: float, level: float, named: str) -> None:
    """Of 50 % intervals every second one leaves out 0 by chance, which a headline that does not say so hides."""
    text = bathyscope.compare([RUN, other(later=later)], resamples=200, seed=1, level=level).text
    assert ("Half of the tokens keep" in text) == (later > 0)
    headline = text.partition(". ")[0] if later else text.partition(" (half")[0]
    assert headline.partition(" by intervals of ")[1:] == (" by intervals of " if named else "", named[17:])


def test_prompts_that_two_samples_share_are_said_to_count_twice() -> None:
    result = bathyscope.compare([RUN, other(later=0.3)], resamples=200, seed=1, paired=False)
    assert "12 prompts are in both model-12 and other and counted once for each" in " ".join(result.notes)
    alone = bathyscope.compare([RUN, other(later=0.3)], resamples=200, seed=1)
    assert "counted once for each" not in " ".join(alone.notes)


def test_readings_are_those_of_the_verdict_paired_by_prompt() -> None:
    changed = other(later=0.3)
    result = bathyscope.compare([RUN, changed], resamples=200, seed=1)
    row = result.readings.isel(comparison=0)
    for name in ("readable", "own", "later"):
        first, second = (getattr(run.verdict, name) for run in (RUN, changed))
        readings = [
            Reading(side.by_prompt[:, None] / 6, np.ones(12), only_entry, (0.0, 1.0)) for side in (first, second)
        ]
        expected = paired_difference(readings[0], readings[1], Sampling(200, 0.95, 1))
        cell = row.sel(reading=name)
        assert float(cell["difference"]) == pytest.approx(expected.estimate)
        assert float(cell["difference_low"]) == pytest.approx(expected.ci_low)
        assert float(cell["reference_ratio"]) == pytest.approx(first.value / 6)
        assert float(cell["other_ratio"]) == pytest.approx(second.value / 6)
    assert float(row.sel(reading="readable")["difference"]) == pytest.approx(0.05)
    halves = [run.verdict.half.ratio for run in (RUN, changed)]
    cell = row.sel(reading="half")
    assert [float(cell["reference_ratio"]), float(cell["other_ratio"])] == pytest.approx(halves)
    assert halves[1] > halves[0] + 0.01
    assert result.text.startswith(
        "Half of the tokens keep their prediction from a larger share of the blocks on in other than in model-12: "
    )
    assert " of 5 differences of the verdict's readings have an interval without 0, uncorrected: half +" in result.text
    assert "readable +0.050" in result.text


def test_the_block_that_costs_more_is_named_and_no_other() -> None:
    result = bathyscope.compare([RUN, other(costlier=2)], resamples=2000)
    assert result.blocks is not None
    row = result.blocks.isel(comparison=0)
    added = (RUN["drop"]["loss"] - RUN["drop"]["baseline_loss"]).mean("prompt")
    np.testing.assert_allclose(row["reference_cost"], added)
    assert float(row["difference"].sel(block=2)) == pytest.approx(0.5, abs=0.02)
    assert (row["difference"].sel(block=[0, 1, 3, 4, 5]) == 0).all()
    named = f"block 2 {float(row['difference'].sel(block=2)):+.3g} nats"
    assert f"1 of 6 differences of the loss added without a block hold after Holm's correction: {named}." in result.text
    # the sentence on top, which stands alone on pages, does not deny what follows it
    assert sentence(result).startswith("No difference of depth is proved on 12 prompts (half of the tokens keep")
    assert sentence(result).endswith(". What a block costs differs in 1 of 6 blocks")
    tables = leading_tables(result, 0)
    assert [table.title.partition(": ")[2] for table in tables] == [
        "readings of the verdict, as ratios of L",
        "loss added without each block, nats per token",
    ]
    assert tables[1].cells()[2][0] == "2"
    assert tables[1].cells()[0][3] == "0.000"


def test_costs_that_were_measured_differently_are_not_compared_silently() -> None:
    measures = {**RUN.identity.measures, "drop": {"positions": "published"}}
    (note,) = bathyscope.compare([RUN, other(measures=measures)], resamples=50).notes
    assert "were measured differently: drop.positions" in note
    assert "'published'" in note


def test_an_interval_without_0_is_not_written_as_0() -> None:
    """As of a copy in half precision, whose readings all move by a hair."""
    result = bathyscope.compare([RUN, other(later=2e-5)], resamples=200)
    cell = result.readings.isel(comparison=0).sel(reading="readable")
    assert 0 < float(cell["difference_low"]) < float(cell["difference_high"]) < 5e-4
    (written,) = re.findall(r"readable (\S+) \((\S+) to (\S+)\)", result.text)
    assert [float(number) > 0 for number in written] == [True, True, True]


def test_a_model_and_itself_do_not_differ() -> None:
    result = bathyscope.compare([RUN, other()], resamples=200)
    assert result.text.startswith("No difference of depth is proved on 12 prompts (half of the tokens keep")
    assert (
        " 0 of 5 differences of the verdict's readings have an interval without 0, uncorrected. 0 of 6 " in result.text
    )
    assert "nan" not in result.text


def test_costs_of_blocks_are_compared_where_both_have_them() -> None:
    deeper = complete_run(L=8, prompts=12)
    assert bathyscope.compare([RUN, deeper], resamples=50).blocks is None
    assert bathyscope.compare([RUN, without(other(), "drop")], resamples=50).blocks is None


def test_levels_of_one_run_have_the_readings_of_their_prompts() -> None:
    level = np.array([1, 2] * 6)
    lens = RUN["lens"].assign_coords(level=("prompt", level))
    groups = {f"/{name}": RUN[name].assign_coords(level=("prompt", level)) for name in RUN.measures}
    assert lens.sizes["prompt"] == 12
    run = Run(type(RUN.tree).from_dict(groups), RUN.manifest)
    result = bathyscope.compare([run], question="difficulty", by="level", resamples=50)
    by_prompt = RUN.verdict.readable.by_prompt / 6
    cell = result.readings.isel(comparison=0).sel(reading="readable")
    assert float(cell["reference_ratio"]) == pytest.approx(by_prompt[level == 1].mean())
    assert float(cell["other_ratio"]) == pytest.approx(by_prompt[level == 2].mean())
