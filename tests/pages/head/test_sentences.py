"""Every sentence of a profile against its numbers, over a grid of runs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from support.profiled import profiled_run

from bathyscope.pages.head.answer import answer
from bathyscope.pages.head.classes import LIMITS, class_of, rounded, write_cost
from bathyscope.pages.head.numbers import Points, Profile, read_profile
from bathyscope.pages.head.section import facts
from bathyscope.pages.head.sentences import basis, carrying, carrying_fact, describe, explain_picture, headline
from bathyscope.runs.by_place import ByPlace, by_block
from bathyscope.runs.run import Run

LATE, EARLY = [0.01, 0.01, 0.01, 0.01, 0.01, 1.0], [1.0, 0.01, 0.01, 0.01, 0.01, 0.01]
EVEN, NONE = [1.0] * 6, [0.0] * 6


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+|\d+", text)]


@pytest.mark.parametrize(
    ("readable", "last", "effects"), list(product((0.5, 3.0, 5.4), (0.1, 0.7, 0.97, 1.0), (LATE, EARLY, EVEN, NONE)))
)
def test_the_headline_is_true_of_the_depths(readable: float, last: float, effects: list[float]) -> None:
    run = profiled_run(readable=readable, last=last, effects=effects)
    profile, verdict = read_profile(run), run.verdict
    text, below = headline(profile), basis(profile)
    assert verdict.half.value == pytest.approx(readable, abs=0.02)
    assert text.startswith(f"Half of the tokens keep their final prediction from {verdict.half} of 6 blocks on")
    changed = 1 - last
    assert ("the last block still changes" in text) == (round(100 * changed) > 0)
    assert text.endswith(f"; the last block still changes {100 * changed:.0f} %") or changed == 0
    if verdict.own.value:
        done = f"90 % of the effect on the output is done by {verdict.own}, against 5.4 if all blocks counted alike."
        assert below.startswith(done)
    else:
        assert below.startswith("Leaving out single blocks changes no output.")
    assert len(text) < 130


def test_a_run_of_an_earlier_version_is_headed_by_its_mean_and_says_so() -> None:
    run = profiled_run(readable=2.5, old=True)
    profile = read_profile(run)
    assert headline(profile).startswith(
        f"A token keeps its final prediction from {run.verdict.readable} of 6 blocks on, on average; the last block"
    )
    assert [mark.name for mark in profile.marks] == ["readable", "own"]
    assert any(line.startswith("blue: mean over tokens") for line in explain_picture(profile))
    assert "not stored in this run: survey again" in " ".join(run.verdict.details)


def controlled(moved: float, seeds: int, *, seed_spread: float = 0.02) -> Run:
    controls = {
        f"untrained-{seed}": profiled_run(
            readable=3.0 - moved + seed_spread * (seed - (seeds - 1) / 2), measures=("lens",)
        )
        for seed in range(seeds)
    }
    return profiled_run(readable=3.0, controls=controls)


@pytest.mark.parametrize(
    ("moved", "seeds", "spread"), [(-2.0, 3, 0.02), (1.5, 3, 0.02), (0.001, 3, 0.02), (-0.5, 3, 1.5), (-2.0, 1, 0.02)]
)
def test_training_is_said_to_move_what_its_interval_says(moved: float, seeds: int, spread: float) -> None:
    run = controlled(moved, seeds, seed_spread=spread)
    profile = read_profile(run)
    # the same number heads the page, with controls and without
    assert headline(profile) == headline(read_profile(profiled_run(readable=3.0)))
    null = run.verdict.half.nulls["untrained"]
    low, high = null.interval
    assert null.value == pytest.approx(3 - moved, abs=0.02)
    if seeds > 1:
        interval = f"(95 % interval {low:+.1f} to {high:+.1f})".replace("-", "−")
        assert f"{null.moved:+.1f}".replace("-", "−") in basis(profile)
        assert interval in basis(profile)
        assert basis(profile).count("90 % of the effect") == 1, "these controls were not skipped"
    else:
        assert "One untrained model of this shape reads 5.0; three would tell" in basis(profile)


@pytest.mark.parametrize(
    ("costs", "title", "text"),
    [
        (
            [6.9, 0.16, 0.05, 0.75],
            "Two blocks carry the model",
            "Block 0 costs +6.9 nats, block 3 +0.75; all others +0.05 to +0.16.",
        ),
        ([0.2, 0.01, 0.05, 0.1], "No single block carries the model", "Costliest alone: block 0, +0.20 nats."),
        (
            [1.2, 0.4, 0.5, 0.6],
            "Every block carries the model",
            "Block 0 costs +1.2 nats, block 3 +0.60, block 2 +0.50 and 1 more from +0.40.",
        ),
        ([0.01, 0.02, 2.0, -0.1], "One block carries the model", "Block 2 costs +2.0 nats; all others −0.10 to +0.02."),
        ([3.0, 0.1], "One block carries the model", "Block 0 costs +3.0 nats; the other +0.10."),
        ([3.0], "One block carries the model", "Block 0 costs +3.0 nats."),
    ],
)
def test_what_carries_the_model(costs: list[float], title: str, text: str) -> None:
    assert carrying_fact(read_profile(profiled_run(len(costs), costs=costs))) == (title, text)


def test_more_blocks_than_words_count_are_most_of_them() -> None:
    costs = [*(1.0 + 0.1 * block for block in range(11)), 0.01, 0.02]
    assert carrying_fact(read_profile(profiled_run(13, costs=costs)))[0] == "Most blocks carry the model, 11 of 13"
    fewer = [*costs, *(0.01 for _ in range(9))]
    assert carrying_fact(read_profile(profiled_run(22, costs=fewer)))[0] == "11 blocks carry the model"


def points(mean: list[float], low: list[float], high: list[float]) -> Points:
    """Costs of blocks with intervals that hold for all of them at once."""
    return Points(tuple(range(len(mean))), tuple(mean), tuple(low), tuple(high), tuple(low), tuple(high))


def test_what_is_not_shown_to_carry_the_model_is_not_said_to() -> None:
    profile = read_profile(profiled_run(3, costs=[2.0, 0.6, 0.05]))

    def fact_with(*low: float, high: tuple[float, ...] = (5.0, 0.9, 0.1)) -> tuple[str, str]:
        return carrying_fact(replace(profile, costs=points([2.0, 0.6, 0.05], list(low), list(high))))

    assert fact_with(-1.0, -0.3, 0.0) == (
        "No single block is shown to carry the model",
        "Costliest alone: block 0, +2.0 nats (−1.0 to +5.0): survey more prompts.",
    )
    # the costliest may be the one that is open
    assert fact_with(-1.0, 0.3, 0.0) == (
        "One block is shown to carry the model",
        "Block 1 costs +0.60 nats; all others +0.05 to +2.0; whether block 0 does is open: survey more prompts.",
    )
    assert fact_with(1.0, 0.3, 0.0)[0] == "Two blocks carry the model"
    assert fact_with(1.0, 0.3, 0.0, high=(5.0, 0.9, 0.4))[0] == "Two blocks are shown to carry the model"
    nan = math.nan
    assert fact_with(nan, nan, nan, high=(nan, nan, nan)) == (
        "No single block is shown to carry the model",
        "Costliest alone: block 0, +2.0 nats, without an interval: survey more prompts.",
    )


def test_that_no_block_carries_the_model_is_said_where_every_interval_ends_below_it() -> None:
    profile = read_profile(profiled_run(3))
    costs = points([0.19, 0.05, 0.01], [-0.3, 0.0, 0.0], [0.65, 0.1, 0.1])
    assert carrying_fact(replace(profile, costs=costs)) == (
        "No single block is shown to carry the model",
        "Costliest alone: block 0, +0.19 nats (−0.30 to +0.65): survey more prompts.",
    )
    # not the costliest, but a block of a wide interval leaves it open
    costs = points([0.19, 0.05, 0.01], [0.18, -0.3, 0.0], [0.2, 0.4, 0.1])
    assert carrying_fact(replace(profile, costs=costs)) == (
        "No single block is shown to carry the model",
        "Costliest alone: block 0, +0.19 nats (+0.18 to +0.20); whether block 1 does is open: survey more prompts.",
    )
    costs = points([0.19, 0.05, 0.01], [0.18, -0.3, 0.0], [0.2, 0.29, 0.1])
    assert carrying_fact(replace(profile, costs=costs))[0] == "No single block carries the model"


def costs_by_prompt(values_PX: np.ndarray) -> Points:
    return Points.of(ByPlace("drop", "", "nats", tuple(range(values_PX.shape[1])), values_PX))


def says_of_arrays(costs: Points) -> tuple[str, str]:
    return carrying_fact(replace(read_profile(profiled_run(len(costs.places))), costs=costs))


@settings(max_examples=60, deadline=None)
@given(
    values=arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.one_of(st.sampled_from([0.0, 0.3, 0.295, 1.0]), st.floats(-1, 4), st.just(math.nan)),
    ),
    common=st.sampled_from([0.0, 0.05, 1.0]),
)
def test_what_is_said_of_carrying_is_what_the_joint_intervals_show(values: np.ndarray, common: float) -> None:
    """Prompts that agree (common is how far they differ) or not, with missing values, one prompt and one block."""
    values = values[:1] + common * (values - values[:1])
    assume(not np.isnan(values).all(axis=0).all())
    costs = costs_by_prompt(values)
    measured = [block for block in costs.places if not math.isnan(costs.mean[block])]
    title, text = says_of_arrays(costs)
    wide = [np.array(ends) for ends in (costs.joint_low, costs.joint_high)]
    for block in measured:
        alone = values[:, block][~np.isnan(values[:, block])]
        # Student's interval at the level that all measured blocks share, from the prompts themselves
        if alone.size < 2:
            assert math.isnan(wide[0][block])
        elif np.ptp(alone) > 1e-9:
            reach = stats.t.isf(0.025 / len(measured), alone.size - 1) * alone.std(ddof=1) / math.sqrt(alone.size)
            assert alone.mean() - wide[0][block] > 0.85 * reach
            assert wide[1][block] - alone.mean() > 0.85 * reach
    shown = [block for block in measured if rounded(float(wide[0][block])) >= 0.3]
    ruled_out = [block for block in measured if rounded(float(wide[1][block])) < 0.3 and block not in shown]
    some_are_open = len(shown) + len(ruled_out) < len(measured)
    assert sorted(carrying(costs)) == shown
    assert ("shown" in title) == some_are_open
    assert ("survey more prompts" in text) == some_are_open
    assert title.startswith("No ") == (not shown)
    if len(values) == 1:
        assert title == "No single block is shown to carry the model"
    if shown and len(shown) < 11:
        words = {len(measured): "Every"} if len(shown) > 1 and not some_are_open else {}
        names = ["", "One", "Two", "Three", "Four", "Five", "Six"]
        assert title.startswith(words.get(len(shown), names[len(shown)]))
        assert f"Block {carrying(costs)[0]} costs {write_cost(costs.at(carrying(costs)[0]))} nats" in text


@pytest.mark.parametrize(("prompts", "blocks"), [(1, 4), (2, 4), (6, 4), (6, 12), (12, 8)])
def test_blocks_of_no_cost_are_seldom_said_to_carry_the_model(prompts: int, blocks: int) -> None:
    """Costs of ±0.03 nats whose prompts are 0.6 apart: 400 surveys of independent blocks, the hardest case."""
    rng = np.random.default_rng(prompts * blocks)
    true = np.resize([0.03, -0.03], blocks)
    named = 0
    for _ in range(400):
        named += bool(carrying(costs_by_prompt(true + rng.normal(0, 0.6, (prompts, blocks)))))
    assert named / 400 < 0.03


def test_a_block_that_costs_much_is_seldom_said_to_carry_nothing() -> None:
    """A block of 0.35 nats among others of none; absence needs all ends below the limit, in 5 % at most."""
    rng = np.random.default_rng(5)
    denied = 0
    for _ in range(400):
        values = np.array([0.35, 0, 0, 0]) + rng.normal(0, 0.3, (6, 4))
        denied += says_of_arrays(costs_by_prompt(values))[0] == "No single block carries the model"
    assert denied / 400 < 0.03


@pytest.mark.parametrize("seed", range(20))
def test_what_carries_is_what_the_colours_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = np.round(np.exp(rng.normal(-1.5, 1.5, 8)), 4)
    profile = read_profile(profiled_run(8, costs=list(costs), spread=1e-9))
    assert profile.costs is not None
    assert sorted(carrying(profile.costs)) == [block for block in range(8) if rounded(costs[block]) >= 0.3]
    # what is written of a block is its loss, and the class of its colour holds the written number
    for block, loss in enumerate(profile.costs.mean):
        written = float(write_cost(loss).replace("−", "-"))
        assert written == pytest.approx(costs[block], abs=0.0051 if costs[block] < 1 else 0.051)
        assert class_of(loss) == sum(written >= limit for limit in LIMITS)


@pytest.mark.parametrize(
    ("loss", "long", "short"),
    [
        (0.0, "0.00", "0"),
        (-0.004, "0.00", "0"),
        (0.0996, "+0.10", ".10"),
        (-0.25, "−0.25", "−.25"),
        (0.996, "+1.0", "1.0"),
        (9.96, "+10", "10"),
        (123.4, "+123", "123"),
        (math.nan, "–", "–"),
    ],
)
def test_how_a_loss_is_written(loss: float, long: str, short: str) -> None:
    assert (write_cost(loss), write_cost(loss, short=True)) == (long, short)


@pytest.mark.parametrize(
    ("run", "begins"),
    [
        (
            profiled_run(measures=("drop",)),
            "Left out, block 0 adds up to +2.0 nats to the loss; each other at most +0.05",
        ),
        (
            profiled_run(measures=("drop",), costs=[0.2, 0.1, 0.02, 0.03, 0.04, 0.05]),
            "Leaving out one block adds +0.02 to +0.20 nats",
        ),
        (profiled_run(1, measures=("drop",), costs=[4.0]), "Leaving out block 0 adds +4.0 nats to the loss"),
        (profiled_run(measures=("skip",)), "This run says nothing of depth yet"),
    ],
)
def test_a_run_without_lens_has_a_headline_too(run: Run, begins: str) -> None:
    assert headline(read_profile(run)).startswith(begins)


def test_the_picture_in_words_has_every_number() -> None:
    profile: Profile = read_profile(profiled_run())
    words = describe(profile)
    assert profile.share is not None
    assert profile.costs is not None
    assert all(
        f"{100 * share:.0f} % at {place}" in words for place, share in zip(profile.share.places, profile.share.mean)
    )
    assert all(f"{block}: {write_cost(loss)}" in words for block, loss in zip(profile.costs.places, profile.costs.mean))


def test_the_title_of_the_first_fact_names_what_its_sentence_names() -> None:
    def title(costs: list[float], **options: Any) -> str:
        run = profiled_run(len(costs), costs=costs, **options)
        return facts(read_profile(run), answer(run))[0].title

    assert title([2.0, 0.01, 0.3, 0.02]) == "Blocks 1, 3 are cheap to leave out"
    assert title([2.0, 0.01, 0.3, 0.2]) == "Block 1 is cheap to leave out"
    assert title([2.0, *[0.01] * 7]) == "7 of 8 blocks are cheap to leave out alone"
    assert title([2.0, 0.3, 0.2]) == "No block is cheap to leave out"
    assert title([2.0, 0.01, 0.2], prompts=1) == "No block is proved cheap to leave out"
    assert title([2.0], measures=("lens",)) == "Which blocks are cheap to leave out is unknown"


def test_the_headline_of_a_looped_model_counts_loops_too() -> None:
    for readable, loops in ((5.4, 2.7), (3.0, 1.5)):
        run = profiled_run(6, readable=readable)
        run.manifest["identity"]["loops"] = [0, 1, 0, 1, 0, 1]
        text = (
            f"Half of the tokens keep their final prediction from {run.verdict.half} of 6 blocks ({loops} of 3 loops)"
        )
        assert headline(read_profile(run)).startswith(text)


def test_why_the_papers_criteria_differ_is_told_where_they_are() -> None:
    profile = read_profile(profiled_run())
    assert not any("ticks" in line for line in explain_picture(profile))
    assert explain_picture(replace(profile, criteria={"overlap": 5.0, "kl": 3.0}))[0] == (
        "ticks: where refinement begins by the papers' criteria: KL 3, top-k overlap 5 of 6, each on another curve"
    )
    assert explain_picture(replace(profile, criteria={"kl": 3.0}))[0].endswith("criteria: KL 3 of 6")


def test_how_training_moved_the_effect_on_output_has_its_interval() -> None:
    controls = {f"untrained-{seed}": profiled_run(effects=EARLY, measures=("lens", "skip")) for seed in range(3)}
    run = profiled_run(effects=LATE, controls=controls)
    null = run.verdict.own.nulls["untrained"]
    low, high = null.interval
    expected = f"90 % of the effect on the output: {null.moved:+.1f} blocks ({low:+.1f} to {high:+.1f})."
    assert null.moved > 1
    assert expected.replace("-", "−") in basis(read_profile(run))


@pytest.mark.parametrize(("readable", "explained"), [(3.0, False), (3.06, True)])
def test_what_training_moved_is_the_difference_of_the_marks_as_they_are_written(
    readable: float, explained: bool
) -> None:
    """The marks 3.1 and 5.0 differ by 1.9, and the mean difference is −2.0."""
    controls = {f"untrained-{seed}": profiled_run(readable=5.02, measures=("lens",)) for seed in range(3)}
    profile = read_profile(profiled_run(readable=readable, controls=controls))
    assert "−2.0" in basis(profile)
    assert (f"−2.0 blocks ({readable:.2f} against 5.02; " in basis(profile)) == explained


def test_what_the_marks_are_is_told_where_they_are() -> None:
    assert len(explain_picture(read_profile(profiled_run()))) == 1
    assert explain_picture(read_profile(profiled_run(measures=("lens",)))) == []
    assert explain_picture(read_profile(profiled_run(measures=("drop",)))) == []
    # 90 % of the effect next to a last block that changes a third of the predictions looks like a contradiction
    for last, explained in ((0.7, True), (0.97, False)):
        text = explain_picture(read_profile(profiled_run(last=last)))[-1]
        assert text.endswith("; the rest can still change predictions") == explained


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"replace": "mean"}, "with drop.replace=mean a mean takes the place of each contribution"),
        ({"protect_first": 1}, "with drop.protect_first=1 each block still acts on the first token of a prompt"),
    ],
)
def test_no_block_is_called_cheap_or_costly_where_none_was_left_out_as_a_whole(
    options: dict[str, Any], reason: str
) -> None:
    run = profiled_run(4, costs=[2.0, 0.0, 0.0, 0.0])
    assert answer(run).blocks == (1, 2, 3)
    run.manifest["identity"]["measures"]["drop"] = options
    found, profile = answer(run), read_profile(run)
    assert found.cheap.startswith(f"Which blocks could go is unknown: {reason}")
    assert (found.blocks, found.costly) == ((), "")
    assert found.command.startswith("bathyscope survey ")
    titles = [(fact.title, fact.text) for fact in facts(profile, found)]
    assert titles[0][0] == "Which blocks are cheap to leave out is unknown"
    assert titles[1][0] == "Which blocks carry the model is unknown"
    assert titles[1][1].lower().startswith(reason.lower())
    assert profile.costs is None
    assert "without one block" not in describe(profile)
    assert not by_block(run)[0].label.endswith("without the block")
