"""The verdict: readings by prompt, when they agree, and what is said."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.idle import after_each, behind_all, with_idle_blocks
from support.kept import half_by_hand, ramps

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.model import load
from bathyscope.model.reading import tokenized
from bathyscope.runs.judging import verdict_of
from bathyscope.runs.readings import DepthReading, Null, blocks_until
from bathyscope.statistics.difference import Term, contrast, paired_difference
from bathyscope.statistics.sample_size import units_needed
from bathyscope.statistics.sampling import Sampling

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
EARLY = [4.0, 1.0, 0.0, 0.0]
"""Effects of four blocks: 80 %, then 20 %, so that 90 % is done half-way through block 1."""
LATE = [1.0, 1.0, 1.0, 7.0]


def run(
    prediction: list[float], own: list[list[float]], later: list[list[float]] | None = None
) -> dict[str, xr.Dataset]:
    """Lens and skip of a model of four blocks on as many prompts as are given.

    Args:
        prediction: mean prediction depth of each prompt, and from where half of its tokens keep their prediction.
    """
    kept = ("prompt", "boundary"), ramps(prediction, 4)
    lens = xr.Dataset({"prediction_depth": ("prompt", prediction), "top1_kept": kept}, {"boundary": range(5)})

    def effects(values: list[list[float]]) -> tuple[tuple[str, ...], np.ndarray]:
        twice = np.stack([np.array(values), 9 * np.array(values)[:, ::-1]], 1)
        return ("prompt", "part", "reduction", "skipped"), twice[:, None]

    skip = xr.Dataset(
        {"output_all": effects(own), "output_future": effects(later or own)},
        {"part": ["block"], "reduction": ["mean", "max"], "skipped": range(4)},
    )
    return {"lens": lens, "skip": skip}


def test_blocks_until_a_share_lie_between_blocks_by_proportion() -> None:
    np.testing.assert_allclose(blocks_until([EARLY, LATE, [0, 0, 0, 5], [1, 0, 0, 0]]), [1.5, 3 + 6 / 7, 3.9, 0.9])
    # evenly spread effects are done at the share itself
    np.testing.assert_allclose(blocks_until(np.ones((1, 7)), 0.5), [3.5])
    # where no block has an effect, none is needed
    assert blocks_until([0.0, 0.0]) == 0
    # an effect that is not known is not none: all others may be small beside it
    assert np.isnan(blocks_until([[np.nan, 1.0, 1.0], [1.0, 1.0, np.nan]])).all()


def test_each_reading_is_a_mean_over_prompts_with_an_interval() -> None:
    found = verdict_of(run([1.0, 2.0, 3.0], [EARLY, EARLY, LATE], [LATE, LATE, LATE]))
    assert (found.readable.value, found.n_blocks) == (2.0, 4)
    assert found.own.value == pytest.approx((1.5 + 1.5 + 3 + 6 / 7) / 3)
    assert found.later.value == pytest.approx(3 + 6 / 7)
    assert found.readable.low < 2.0 < found.readable.high <= 4.0
    assert found.later.ratio == pytest.approx(found.later.value / 4)


def test_the_head_says_half_of_the_tokens_and_then_the_effect() -> None:
    found = verdict_of(run([2.0] * 8, [EARLY] * 8))
    assert (found.half.value, found.head.tokens, found.head.effect) == (2.0, found.half, found.own)
    assert found.text == (
        "Half of the tokens keep their final prediction from 2.0 (1.3 to 2.7) of 4 blocks on. 90 % of the effect on "
        "the output is done by 1.5 (0.9 to 2.4), against 3.6 if all blocks counted alike (no control: an untrained "
        "model has depths too). To know both depths to within one block, survey about 10 to 33 prompts."
    )


def test_tokens_of_all_prompts_are_pooled() -> None:
    """A long prompt weighs by its tokens, which a mean over prompts would not see."""
    given = run([1.0, 3.0], [EARLY, EARLY])
    given["lens"]["n_averaged"] = ("prompt", [90, 10])
    shares = given["lens"]["top1_kept"].values
    found = verdict_of(given)
    assert found.half.value == pytest.approx(half_by_hand(shares, [90, 10]))
    assert found.tokens_90.value == pytest.approx(half_by_hand(shares, [90, 10], 0.9))
    assert found.half.value < 1.3 < found.readable.value
    np.testing.assert_allclose(found.half.by_prompt, [1.0, 3.0])


@pytest.mark.parametrize(("prediction", "effects", "why"), [(1.0, LATE, "sharpen"), (3.5, EARLY, "back each other up")])
def test_tokens_and_effects_that_differ_have_a_reason(prediction: float, effects: list[float], why: str) -> None:
    found = verdict_of(run([prediction, prediction - 1e-4], [effects] * 2))
    assert found.agreement == "different"
    assert why in found.reasons[0]
    tokens, effect = found.tokens_90.value, found.own.value
    apart = f"{effect - tokens:+.1f}"
    assert found.details[:3] == (
        f"At equal shares, 90 % of the tokens keep their prediction from {tokens:.1f} on and 90 % of the effect is "
        f"done by {effect:.1f}: different ({apart}, {apart} to {apart}).",
        f"Why they may differ: {found.reasons[0]}.",
        f"90 % of the effect on later tokens is done by {found.later}.",
    )


def test_agreement_is_read_off_the_interval_and_not_off_the_values() -> None:
    # 90 % of the tokens by d + 0.8, 90 % of the effect by 1.5: apart by 0.3
    close = verdict_of(run([1.0, 1.01, 1.02, 0.99, 0.98, 1.0], [EARLY] * 6))
    assert (close.agreement, close.reasons) == ("within", ())
    assert abs(close.apart.estimate) < 1
    # prompts that are all alike do not show how far others lie apart
    assert verdict_of(run([1.0] * 6, [EARLY] * 6)).agreement == "open"
    # the same distance of values where prompts lie far apart
    wide = verdict_of(run([0.0, 2.0, 0.0, 2.0, 0.0, 2.0], [EARLY, LATE, EARLY, EARLY, EARLY, LATE]))
    low, high = wide.apart.ci_low, wide.apart.ci_high
    assert low <= 0 <= high
    assert high - low > 1
    assert wide.agreement == "open"
    assert "whether they differ is open" in wide.details[0]
    alone = verdict_of(run([1.0], [EARLY]))
    assert (alone.agreement, np.isnan(alone.apart.ci_low)) == ("open", True)
    assert verdict_of({"lens": run([1.0], [EARLY])["lens"]}).agreement == "unknown"


def test_wide_intervals_say_how_many_prompts_would_do() -> None:
    found = verdict_of(run([0.5, 3.5, 0.5, 3.5, 2.0, 2.5], [EARLY] * 6))
    fewest, most = units_needed(found.half.high - found.half.low, 6, 1.0, 0.95)
    # what later tokens use may be less certain, and is not what is counted for
    assert found.text.endswith(f"To know both depths to within one block, survey about {fewest} to {most} prompts.")


@pytest.mark.parametrize(("prompts", "begins"), [(2, "2 prompts are too few"), (4, "4 prompts are too few")])
def test_few_prompts_cannot_tell_how_many_are_needed(prompts: int, begins: str) -> None:
    found = verdict_of(run([1.0, 3.0, 1.0, 3.0][:prompts], [EARLY] * prompts))
    assert found.advice == f"{begins} to tell how many would give both depths to within one block: survey ten or more."


def test_an_interval_that_is_missing_says_why() -> None:
    needed = "an interval needs at least two prompts, better ten or more."
    assert verdict_of(run([2.0], [EARLY])).advice == f"Only one prompt: {needed}"
    partly = verdict_of(run([1.4, 1.5, 1.6], [EARLY, [np.nan] * 4, [np.nan] * 4]))
    assert np.isnan(partly.own.low)
    assert partly.advice == f"Only 1 of 3 prompts has the reading own: {needed}"
    # what is compared at equal shares is of the one prompt that has both
    assert partly.apart.n_prompts == (1,)
    assert partly.details[2] == "Readings that not all prompts have: own for 1 of 3 prompts, later for 1 of 3 prompts."
    together = verdict_of(run([1.0, 2.0], [EARLY] * 2), cluster=np.array([7, 7]))
    assert together.advice == (
        "All 2 prompts belong to one cluster: an interval needs at least two clusters, better ten or more."
    )


def test_the_difference_at_equal_shares_is_paired_by_prompt() -> None:
    effects = [EARLY, LATE, LATE, EARLY, LATE]
    together = verdict_of(run(blocks_until(effects).tolist(), effects), seed=3)
    expected = paired_difference(together.tokens_90.statistic, together.own.statistic, Sampling(1000, 0.95, 3))
    assert (together.apart.ci_low, together.apart.ci_high) == (expected.ci_low, expected.ci_high)
    assert together.apart.estimate == pytest.approx(together.own.value - together.tokens_90.value)
    assert together.apart.estimates == pytest.approx((together.tokens_90.value, together.own.value))


def test_blocks_without_effects_are_none_that_are_needed() -> None:
    idle = verdict_of(run([0.0] * 8, [[0.0] * 4] * 8))
    assert (idle.own.value, idle.later.value, idle.half.value) == (0, 0, 0)
    assert idle.advice == "To know both depths to within one block, survey about 10 to 33 prompts."
    assert idle.text.startswith(
        "Half of the tokens keep their final prediction from 0.0 (0.0 to 0.7) of 4 blocks on. Leaving out single "
        "blocks changes no output (no control"
    )
    # nothing is no effect of which a share is done somewhere
    assert "Leaving out single blocks changes no output at later tokens." in idle.details
    assert not any("effect on later tokens is done by" in sentence for sentence in idle.details)


def test_a_prompt_whose_tokens_are_all_protected_has_no_effect_to_read() -> None:
    given = run([1.0, 1.0], [EARLY, [0.0] * 4])
    given["skip"] = given["skip"].assign_coords(n_tokens=("prompt", [5, 1]))
    assert np.isnan(verdict_of(given).own.by_prompt).tolist() == [False, True]


def test_the_last_blocks_share_of_tokens_is_told() -> None:
    """Of prompts whose tokens agree with the end, before the last block, in 40 and 98 %."""
    agreement = np.array([[0.0, 0.1, 0.2, 0.4, 1.0], [0.0, 0.5, 0.9, 0.98, 1.0]] * 4)
    given = run([3.0] * 8, [LATE] * 8)
    given["lens"]["top1_agreement"] = (("prompt", "boundary"), agreement)
    assert verdict_of(given).changed_by_last == pytest.approx(0.31)
    only_lens = {"lens": given["lens"]}
    begins = (
        "Half of the tokens keep their final prediction from 3.0 (2.3 to 3.4) of 4 blocks on; the last block still "
    )
    assert verdict_of(only_lens).text.startswith(f"{begins}changes 31 % (no control")
    assert verdict_of(given).text.startswith(f"{begins}changes 31 %. 90 % of the effect on the output is done by 3.9 (")
    given["lens"]["near_ties"] = (("prompt", "boundary"), 0.25 * (1 - agreement))
    assert verdict_of(given).text.startswith(f"{begins}changes 31 % (25 % of them near-ties). 90 %")
    # of a long prompt more tokens are changed
    given["lens"]["n_averaged"] = ("prompt", [30, 10] * 4)
    assert verdict_of(given).changed_by_last == pytest.approx((30 * 0.6 + 10 * 0.02) / 40)


def test_what_stopping_costs_is_told_at_the_heads_boundary_and_at_the_end() -> None:
    given = run([1.5, 1.5], [LATE] * 2)
    loss = np.array([[9.0, 7.0, 4.0, 3.0, 1.0], [9.0, 7.0, 6.0, 3.0, np.nan]])
    given["lens"]["cross_entropy"] = (("prompt", "boundary"), loss)
    given["lens"]["n_averaged_cross_entropy"] = ("prompt", [3, 1])
    head = verdict_of(given).head
    assert (head.boundary, head.loss_at_boundary, head.loss_at_end) == (2, pytest.approx(4.5), 1.0)
    assert "Read out after 2 blocks, the loss is 4.50 nats; at the end it is 1.00." in verdict_of(given).details
    assert head.record()["loss_by_boundary"] == pytest.approx([9.0, 7.0, 4.5, 3.0, 1.0])
    assert verdict_of(run([1.5] * 2, [LATE] * 2)).head.stopping_sentence == ""


# --- options that make a reading another quantity -------------------------------------------------------


def test_the_published_slip_has_no_reading_of_later_tokens() -> None:
    given = run([2.0, 2.01], [EARLY] * 2, [LATE] * 2)
    slip = verdict_of(given, settings={"lens": {}, "skip": {"axis": "channels"}})
    assert np.isnan(slip.later.value)
    assert slip.own.value == verdict_of(given).own.value
    assert "not the standard definition: skip.axis=channels" in slip.text
    assert "later tokens" not in slip.text
    assert slip.details[2:] == (
        "With skip.axis=channels, a published slip skips channels in place of earlier tokens, so later is not read.",
    )


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"lens": {"positions": "answer"}}, "lens.positions=answer"),
        ({"lens": {"positions": "inner", "norm": ["frozen"]}}, "lens.positions=inner, lens.norm=frozen"),
        ({"skip": {"protect_first": 0, "positions": [[3]]}}, "skip.protect_first=0, skip.positions"),
    ],
)
def test_departures_from_the_definition_are_named(settings: Any, options: str) -> None:
    found = verdict_of(run([2.0, 2.0], [EARLY] * 2), settings=settings)
    assert f"not the standard definition: {options})." in found.text
    assert len([one for one in found.details if one.startswith("With ")]) == options.count(", ") + 1


def test_a_lens_read_with_both_norms_is_the_definition() -> None:
    settings = {"lens": {"norm": ["frozen", "recompute"], "k": 7}, "skip": {"protect_first": 1, "positions": None}}
    assert "definition" not in verdict_of(run([2.0, 2.0], [EARLY] * 2), settings=settings).text


def test_what_was_not_measured_is_not_spoken_of() -> None:
    only_lens = {"lens": run([1.0, 2.0], [EARLY, EARLY])["lens"]}
    found = verdict_of(only_lens)
    assert (found.agreement, found.reasons) == ("unknown", ())
    assert found.text.startswith("Half of the tokens keep their final prediction from 1.5 (")
    assert found.details == ()
    assert found.text.endswith(
        "To learn how long blocks change the output, survey with skip too (--measures lens,skip)."
    )
    parts = run([1.0, 2.0], [EARLY, EARLY])
    parts["skip"] = parts["skip"].assign_coords(part=["mlp"])
    assert np.isnan(verdict_of(parts).own.value)
    assert verdict_of(parts).advice == "Skip left out mlp alone: leave out whole blocks too (--skip.parts block)."
    cut = verdict_of(only_lens, settings={"lens": {}, "skip": {}})
    assert cut.advice == "This part of the run is without skip effects on the output: ask the whole run."
    nothing = verdict_of(run([np.nan], [[np.nan] * 4]))
    assert nothing.text == (
        "No depth was read: no prompt has one (no control: an untrained model has depths too). "
        "No prompt has the reading half or own: survey longer prompts."
    )
    with pytest.raises(OptionError, match=r"A verdict needs the lens.*this run has drop.*measures=\['lens', 'skip'\]"):
        verdict_of({"drop": xr.Dataset()})


def test_at_most_three_short_sentences() -> None:
    for prediction, effects in (
        ([1.0, 3.9], [EARLY, LATE]),
        ([2.0], [EARLY]),
        ([1.0, 1.0], [LATE, LATE]),
        ([4.0, 3.9], [EARLY, EARLY]),
    ):
        sentences = re.split(r"(?<=[.!?]) ", verdict_of(run(prediction, effects)).text)
        assert len(sentences) <= 3
        assert max(len(re.sub(r" \([^)]*\)", "", one).split()) for one in sentences) <= 26, sentences


def test_a_notebook_shows_the_sentences() -> None:
    verdict = verdict_of(run([1.0, 2.0], [EARLY, LATE]))
    assert repr(verdict) == str(verdict) == verdict.text


def test_nothing_is_said_twice() -> None:
    wide = verdict_of(run([1.0, 3.9, 1.0], [LATE] * 3))
    assert wide.advice in wide.text
    assert not set(wide.details) & set(re.split(r"(?<=[.!?]) ", wide.text))
    with_controls = verdict_of(run([1.0, 3.9, 1.0], [LATE] * 3), {"untrained-0": run([1.0] * 3, [LATE] * 3)})
    assert with_controls.advice not in with_controls.text
    assert with_controls.details[-1] == with_controls.advice


def test_the_lens_whose_norm_is_recomputed_is_read() -> None:
    given = run([1.0, 2.0], [EARLY, EARLY])
    both = xr.concat([given["lens"] * 2, given["lens"]], dim=xr.Variable("norm", ["frozen", "recompute"]))
    assert verdict_of({**given, "lens": both}).readable.value == 1.5


def beside(given: float, effects: list[float], prompts: int = 8) -> dict[str, xr.Dataset]:
    """A run whose prompts read ``given`` boundaries, each a little more than the one before.

    What they read in two runs never differs by the same for all of them.
    """
    numbers = np.arange(prompts)
    own = np.array(effects) + 1e-6 * given * numbers[:, None] * np.array([1, 0, 0, 0])
    return run((given + (0.01 + 1e-4 * given) * numbers).tolist(), own.tolist())


def test_what_moved_by_little_keeps_its_sign_and_nothing_has_none_of_less() -> None:
    """An interval that leaves out 0 is said to have moved: its ends must not read 0."""
    assert Null(np.array([[1.0]]), np.array([[-0.01]]), 4).in_brackets == "-0.01"
    low = Null(np.array([[1.0, 1.0]]), np.array([[-0.01, -0.010001]]), 4)
    assert low.differs
    assert low.in_brackets == "-0.01, -0.01 to -0.01"
    assert low.in_words == "0.01 blocks earlier (95 % interval 0.01 to 0.01)"
    assert Null(np.array([[1.0]]), np.array([[-0.0]]), 4).in_brackets == "+0.0"


@pytest.mark.parametrize("prompts", [2, 3, 5, 8])
@pytest.mark.parametrize("seeds", [1, 3])
def test_prompts_that_move_alike_leave_open_what_others_do(prompts: int, seeds: int) -> None:
    null = Null(np.ones((seeds, prompts)), np.full((seeds, prompts), -0.5), 6)
    unseen = 1 - 0.025 ** (1 / prompts)
    assert null.interval == pytest.approx((-0.5 - unseen * 5.5, -0.5 + unseen * 6.5))
    assert not null.differs
    assert not null.same


def test_what_training_moved_is_the_difference_to_untrained_models() -> None:
    controls = {
        "untrained-0": beside(1.0, LATE),
        "untrained-1": beside(1.2, LATE),
        "shuffled_text-0": beside(2.0, EARLY),
    }
    found = verdict_of(beside(2.0, EARLY), controls)
    null = found.readable.null
    assert null is not None
    assert (null.seeds, null.value) == (2, pytest.approx(1.1 * 1.00035 + 0.035))
    assert null.moved == pytest.approx(0.9 * 1.00035)
    # the spread over prompts is in both and cancels; that between two seeds is 0.2 / √2, with one degree of freedom,
    # and the model itself is a third draw
    reach = 12.706 * 0.2 / np.sqrt(2) * np.sqrt(1 + 1 / 2)
    assert null.interval.high - null.moved == pytest.approx(reach, rel=1e-3)
    assert found.own.null is not None
    assert found.own.null.moved == pytest.approx(1.5 - (3 + 6 / 7))
    assert [row["control"] for row in found.rows()] == ["untrained", "shuffled_text"] * 5


def test_training_is_said_to_move_what_it_moved_alone() -> None:
    controls = {f"untrained-{seed}": beside(2.0 + apart, EARLY) for seed, apart in enumerate([-2, 0, 2])}
    found = verdict_of(beside(2.0, LATE), controls)
    assert found.own.null is not None
    assert found.own.null.differs
    begins = (
        "Against 3 untrained models of this shape, training moved the effect (the depth by which 90 % of the effect is "
        "done) 2.4 blocks later (95 % interval 2.4 to 2.4); "
    )
    depth = "the depth from which half of the tokens keep their prediction"
    assert f"{begins}whether training moved the prediction ({depth}: " in found.text
    assert found.text.endswith(" blocks) is open.")


def test_no_difference_is_said_only_within_a_block() -> None:
    same = {f"untrained-{seed}": beside(2.0 + 0.01 * (-1) ** seed + 0.003 * seed, EARLY) for seed in range(4)}
    assert verdict_of(beside(2.0, EARLY), same).text.endswith(
        "In 4 untrained models of this shape the prediction (the depth from which half of the tokens keep their "
        "prediction) and the effect (the depth by which 90 % of the effect is done) are the same within a block."
    )
    apart = {f"untrained-{seed}": beside(2.0 + (-1) ** seed + 0.003 * seed, EARLY) for seed in range(4)}
    text = verdict_of(beside(2.0, EARLY), apart).text
    same_within = "the effect (the depth by which 90 % of the effect is done) is the same within a block; whether"
    assert f"Against 4 untrained models of this shape, {same_within}" in text


def test_untrained_models_without_a_reading_are_not_compared() -> None:
    silent = {f"untrained-{seed}": run([np.nan] * 8, [[np.nan] * 4] * 8) for seed in range(3)}
    assert verdict_of(beside(2.0, EARLY), silent).text.endswith(
        "Nothing can be said of training: no prompt has a reading here and in the 3 untrained models of this shape."
    )
    only_lens = {"lens": beside(2.0, EARLY)["lens"]}
    controls = {f"untrained-{seed}": {"lens": beside(1.0, EARLY)["lens"]} for seed in range(3)}
    depth = "the depth from which half of the tokens keep their prediction"
    moved = f"training moved the prediction ({depth}) 1.0 blocks later"
    assert f"{moved} (95 % interval 1.0 to 1.0)." in verdict_of(only_lens, controls).text
    # and the other way round
    controls = {f"untrained-{seed}": {"lens": beside(3.0, EARLY)["lens"]} for seed in range(3)}
    assert "1.0 blocks earlier (95 % interval 1.0 to 1.0)." in verdict_of(only_lens, controls).text


def test_the_difference_is_of_the_prompts_that_every_control_reads() -> None:
    difference = np.array([[1.0, 1.0, 9.0], [1.0, 1.0, np.nan]])
    null = Null(np.zeros((2, 3)), difference, 4)
    assert null.moved == 1.0
    assert null.interval.low <= 1.0 <= null.interval.high


def test_one_untrained_model_says_nothing_of_training() -> None:
    """Its interval knows of prompts alone: a model drawn as it was lies outside far more often than once in 20."""
    rng, outside = np.random.default_rng(0), 0
    for _ in range(200):
        prompts, (own, other) = rng.normal(size=8), rng.normal(size=2)
        control = prompts + other + 0.3 * rng.normal(size=8)
        null = Null(control[None], prompts + own + 0.3 * rng.normal(size=8) - control[None], 4)
        outside += null.differs
    assert outside > 100
    for depth in (2.0, 3.5):
        text = verdict_of(beside(depth, EARLY), {"untrained-0": beside(2.0, EARLY)}).text
        assert text.endswith(
            "One untrained model of this shape reads 2.0 (the depth from which half of the tokens keep their "
            "prediction) and 1.5 (the depth by which 90 % of the effect is done); at least three would tell what "
            "training moved."
        )
        assert "same" not in text


def test_without_controls_a_row_is_a_reading() -> None:
    rows = verdict_of(beside(2.0, EARLY)).rows()
    assert [row["reading"] for row in rows] == ["half", "tokens_90", "readable", "own", "later"]
    assert set(rows[0]) == {"reading", "blocks", "low", "high", "ratio"}


# --- idle blocks -----------------------------------------------------------------------------------------

TEXTS = [
    "The old house stood at the edge of the village, where the road turned towards the hills.",
    "When the rain had stopped, the captain went up on deck and looked at the sky.",
    "Once upon a time there was a little girl who had a red ball and a small dog.",
]
ORDERS: dict[str, list[int | None]] = {
    "before": [*[None] * 6, *range(6)],
    "between": after_each(6),
    "behind": behind_all(6),
}


@functools.cache
def trained_with(placed: str | None) -> bathyscope.Run:
    """Three short texts on a trained model of six blocks, by itself or with six that do nothing."""
    model = load(str(CHECKPOINTS / "depth_6"), device="cpu", dtype="float32")
    if placed is not None:
        own = model.hf
        model = dataclasses.replace(load(with_idle_blocks(own, ORDERS[placed])), name=placed)
        texts: Any = tokenized(load(str(CHECKPOINTS / "depth_6")), TEXTS).as_given()
    else:
        texts = TEXTS
    return bathyscope.survey(model, texts, ["lens", "skip", "tokens"], progress=False)


def working_blocks(order: Sequence[int | None], done: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many of the blocks done are no idle ones; part of a block is part of one."""
    return sum(np.clip(done - place, 0, 1) for place, block in enumerate(order) if block is not None)


@pytest.mark.contract
@pytest.mark.parametrize("placed", ORDERS)
def test_blocks_that_do_nothing_move_no_reading(placed: str) -> None:
    plain, padded = trained_with(None), trained_with(placed)
    assert (plain.verdict.n_blocks, padded.verdict.n_blocks) == (6, 12)
    for name in ("own", "later"):
        found = working_blocks(ORDERS[placed], getattr(padded.verdict, name).by_prompt).mean()
        assert found == pytest.approx(getattr(plain.verdict, name).value, abs=0.1)
    # a mean over tokens cannot be counted otherwise: the tokens whose mean it is can
    by_token = padded["tokens"]["prediction_depth"]
    assert padded.verdict.readable.value == pytest.approx(float(by_token.mean("token").mean()))
    found = by_token.copy(data=working_blocks(ORDERS[placed], by_token.values)).mean("token").mean()
    assert float(found) == pytest.approx(plain.verdict.readable.value, abs=0.1)
    assert 1 < plain.verdict.readable.value < 6
    if placed != "behind":
        assert padded.verdict.own.value > plain.verdict.own.value + 3


def test_clusters_are_drawn_whole_in_every_interval() -> None:
    """Four copies of a prompt are no four prompts: readings and what training moved are as sure as with one of each."""
    readable, own = [1.0, 2.0, 3.0, 3.0, 4.0], [EARLY, LATE, LATE, EARLY, LATE]
    untrained = {f"untrained-{n}": run([0.5 * n + 0.5] * 4 + [1.0], [EARLY] * 5) for n in range(3)}
    once = verdict_of(run(readable, own), untrained)
    copies = np.repeat(np.arange(5), 4)
    many = verdict_of(
        run([readable[n] for n in copies], [own[n] for n in copies]),
        {name: {m: data.isel(prompt=copies) for m, data in one.items()} for name, one in untrained.items()},
        cluster=copies,
    )
    for name in ("half", "tokens_90", "readable", "own", "later"):
        one, other = getattr(once, name), getattr(many, name)
        assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))
        assert other.null.interval == pytest.approx(one.null.interval)
    assert many.text == once.text.replace("prompts", "clusters of prompts")
    assert (
        "clusters of prompts"
        in verdict_of(run([1.0, 4.0] * 3, [LATE] * 6), cluster=np.array([0, 1, 0, 1, 2, 2])).advice
    )
    alone = verdict_of(run(readable, own), untrained, cluster=np.arange(5))
    assert alone.readable.low == once.readable.low
    assert alone.readable.null is not None
    assert once.readable.null is not None
    assert alone.readable.null.interval == pytest.approx(once.readable.null.interval)


@settings(max_examples=30, deadline=None)
@given(
    prompts=st.integers(2, 30),
    n_blocks=st.integers(2, 40),
    share=st.floats(0.0, 1.0),
    noise=st.sampled_from([0.0, 1e-15]),
)
def test_prompts_that_agree_leave_as_much_open_as_a_difference_of_them(
    prompts: int, n_blocks: int, share: float, noise: float
) -> None:
    """Rounding is no spread, and no spread no certainty: the interval is that of the same prompts in a contrast."""
    values = share * n_blocks * (1 + noise * (np.arange(prompts) % 2))
    reading = DepthReading("readable", np.minimum(values, n_blocks), n_blocks)
    expected = contrast([[Term(reading.statistic, 1.0)]])
    assert reading.interval == pytest.approx((expected.ci_low, expected.ci_high), abs=1e-9)
    unseen = 1 - 0.025 ** (1 / prompts)
    assert reading.low == pytest.approx(share * n_blocks * (1 - unseen), abs=1e-9)
    assert reading.high == pytest.approx(n_blocks * (share + (1 - share) * unseen), abs=1e-9)
