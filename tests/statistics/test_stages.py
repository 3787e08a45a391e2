"""Cuts of planted curves, against brute force, another library, and what is known by construction."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.stages import (
    Curves,
    held_out_errors,
    left_by_ramp,
    mean_band,
    segmentations,
    stage_boundaries,
    standardised,
    step_fit,
)

LEVELS = np.array([[0.0, 2.0, 1.0, -1.0], [1.0, 0.0, -2.0, 1.0], [-1.0, 1.0, 0.0, 2.0], [0.5, -1.0, 1.0, 0.0]])


def planted(edges: tuple[int, ...], n_blocks: int, prompts: int, noise: float, seed: int) -> Curves:
    """Four curves, level between ``edges``; each prompt has an offset of its own and noise at every block."""
    rng = np.random.default_rng(seed)
    level = LEVELS[:, np.searchsorted(edges, np.arange(n_blocks), side="right")]
    own = rng.normal(0, 0.3, (prompts, len(level), 1))
    return Curves(level + own + rng.normal(0, noise, (prompts, *level.shape)), np.empty((0, n_blocks)))


def squares(curves: np.ndarray, breaks: tuple[int, ...]) -> float:
    edges = (0, *breaks, curves.shape[-1])
    pieces = [curves[:, first:end] for first, end in pairwise(edges)]
    return sum(float(((piece - piece.mean(axis=1, keepdims=True)) ** 2).sum()) for piece in pieces)


@pytest.mark.parametrize("shortest", [1, 2, 3])
def test_no_other_cut_leaves_less(shortest: int) -> None:
    curves = np.random.default_rng(shortest).normal(size=(3, 11)).cumsum(axis=1)
    found = segmentations(curves, 5, shortest)
    assert [len(breaks) for breaks in found] == list(range(min(5, 11 // shortest)))
    for breaks in found:
        every = [
            other
            for other in combinations(range(1, 11), len(breaks))
            if all(end - first >= shortest for first, end in pairwise((0, *other, 11)))
        ]
        assert breaks in every
        assert squares(curves, breaks) == pytest.approx(min(squares(curves, other) for other in every))


@pytest.mark.parametrize(("n_blocks", "n_curves"), [(8, 1), (24, 4), (60, 7)])
def test_cuts_are_those_of_another_library(n_blocks: int, n_curves: int) -> None:
    ruptures = pytest.importorskip("ruptures")
    curves = np.random.default_rng(n_blocks).normal(size=(n_curves, n_blocks)).cumsum(axis=1)
    search = ruptures.Dynp(model="l2", min_size=2, jump=1).fit(curves.T)
    for stages, breaks in enumerate(segmentations(curves, 4, 2), start=1):
        assert list(breaks) == search.predict(stages - 1)[:-1]


def test_a_step_fit_is_the_mean_of_each_stage() -> None:
    np.testing.assert_array_equal(step_fit(np.array([[1.0, 3.0, 4.0, 8.0, 0.0]]), (2, 4)), [[2, 2, 6, 6, 0]])


def test_standardised_curves_have_mean_0_and_spread_1_and_constant_ones_are_0() -> None:
    found = standardised([[1.0, 2.0, 9.0], [4.0, 4.0, 4.0]])
    np.testing.assert_allclose([found[0].mean(), found[0].std()], [0, 1], atol=1e-12)
    np.testing.assert_array_equal(found[1], 0)


@pytest.mark.parametrize("edges", [(8, 16), (4, 7, 20)])
def test_planted_stages_are_found_with_their_number(edges: tuple[int, ...]) -> None:
    curves = planted(edges, 24, prompts=10, noise=0.3, seed=1)
    cut = stage_boundaries(curves, len(edges) + 1, 2, Sampling(100, level=0.95, seed=0))
    np.testing.assert_array_equal(cut.block, edges)
    assert (cut.ci_low <= edges).all()
    assert (cut.ci_high >= edges).all()
    assert (cut.share > 0.9).all()
    assert cut.reason == ""
    held = held_out_errors(curves, 6, 2, folds=5, seed=0)
    assert held.best == len(edges) + 1
    assert held.excess[held.best == np.arange(1, 7)] <= held.excess_stderr[held.best == np.arange(1, 7)]


@pytest.mark.parametrize(
    ("noise", "prompts"),
    [
        (2.5, 10),
        *(pytest.param(noise, prompts, marks=pytest.mark.thorough) for noise, prompts in ((1.0, 5), (2.5, 40))),
    ],
)
def test_intervals_hold_planted_boundaries_as_often_as_they_say(noise: float, prompts: int) -> None:
    truth, held = np.array([8.0, 16.0]), []
    for seed in range(40):
        cut = stage_boundaries(planted((8, 16), 24, prompts, noise, seed), 3, 2, Sampling(120, level=0.95, seed=seed))
        held.append((cut.ci_low <= truth) & (truth <= cut.ci_high))
        assert (cut.ci_low == np.floor(cut.ci_low)).all()
    # two standard errors below 95 % in 80 intervals; resampled curves are noisier than their mean, so that the
    # intervals of steps hold more than they say
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("seed", [1, 4])
def test_few_resamples_are_all_within_the_interval(seed: int) -> None:
    """The outer quantiles of five places are the first and the last of them; places by brute force."""
    curves = planted((4,), 9, prompts=4, noise=2.5, seed=seed)
    cut = stage_boundaries(curves, 2, 2, Sampling(5, level=0.95, seed=0))
    drawn = np.random.default_rng(0).integers(4, size=(5, 4))
    means = [standardised(curves.by_prompt[own].mean(axis=0)) for own in drawn]
    places = [min(range(2, 8), key=lambda place: squares(mean, (place,))) for mean in means]
    assert (cut.ci_low.tolist(), cut.ci_high.tolist()) == ([min(places)], [max(places)])


def test_intervals_narrow_with_prompts() -> None:
    widths = []
    for prompts in (5, 80):
        cut = stage_boundaries(planted((8, 16), 24, prompts, 2.5, 3), 3, 2, Sampling(200, level=0.95, seed=0))
        widths.append(float((cut.ci_high - cut.ci_low).mean()))
    assert widths[1] < widths[0] / 2


def test_held_out_errors_are_those_of_a_plain_loop() -> None:
    curves = planted((5,), 12, prompts=6, noise=0.5, seed=2)
    fixed = np.random.default_rng(0).normal(size=(1, 12))
    found = held_out_errors(curves._replace(fixed=fixed), 3, 2, folds=6, seed=4)
    errors, floors = [], []
    for prompt in range(6):
        train = np.delete(curves.by_prompt, prompt, axis=0).mean(axis=0)
        mean, spread = train.mean(axis=1, keepdims=True), train.std(axis=1, keepdims=True)
        test = (curves.by_prompt[prompt] - mean) / spread
        shape = (
            np.concatenate([train, fixed]) - np.concatenate([mean, fixed.mean(1, keepdims=True)])
        ) / np.concatenate([spread, fixed.std(1, keepdims=True)])
        fits = [step_fit(shape, breaks)[:4] for breaks in segmentations(shape, 3, 2)]
        errors.append([((test - fit) ** 2).mean() for fit in fits])
        floors.append(((test - shape[:4]) ** 2).mean())
    every = np.array(errors)
    np.testing.assert_allclose(found.error, every.mean(axis=0))
    np.testing.assert_allclose(found.stderr, every.std(axis=0, ddof=1) / np.sqrt(6))
    over = every - every[:, [every.mean(axis=0).argmin()]]
    np.testing.assert_allclose(found.excess, over.mean(axis=0))
    np.testing.assert_allclose(found.excess_stderr, over.std(axis=0, ddof=1) / np.sqrt(6))
    assert found.floor == pytest.approx(np.mean(floors))


def test_an_offset_of_a_prompt_makes_no_stage_better_or_worse() -> None:
    curves = planted((5,), 12, prompts=4, noise=0.5, seed=2)
    # the offsets add up to 0, so that no training mean is shifted away from the others' scale
    shift = np.array([3.0, -3.0, 5.0, -5.0])[:, None, None]
    plain, moved = (
        held_out_errors(curves._replace(by_prompt=curves.by_prompt + own), 4, 2, folds=4, seed=0) for own in (0, shift)
    )
    np.testing.assert_allclose(moved.excess, plain.excess)
    assert moved.error[0] > 2 * plain.error[0]


def test_fixed_curves_choose_the_breaks() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, (6, 1, 12))
    fixed = np.repeat([[0.0, 3.0, -3.0]], 4, axis=1)
    cut = stage_boundaries(Curves(noise, np.repeat(fixed, 5, axis=0)), 3, 2, Sampling(20, level=0.95, seed=0))
    np.testing.assert_array_equal(cut.block, [4, 8])


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 12])
def test_what_steps_leave_of_a_straight_line(stages: int) -> None:
    line = standardised(np.arange(12.0))[None]
    (*_, breaks) = segmentations(line, stages)
    assert left_by_ramp(12, 12)[stages - 1] == pytest.approx(squares(line, breaks) / 12)


def test_a_straight_line_of_few_blocks() -> None:
    np.testing.assert_allclose(left_by_ramp(2, 4), [1, 0, np.nan, np.nan])
    assert np.isnan(left_by_ramp(1, 2)).all()


def test_the_band_of_a_mean_holds_it_and_shrinks_with_prompts() -> None:
    values = np.random.default_rng(0).normal(3, 1, (400, 5))
    narrow = mean_band(values, Sampling(300, level=0.95, seed=0))
    wide = mean_band(values[:9], Sampling(300, level=0.95, seed=0))
    assert (narrow[0] < values.mean(axis=0)).all()
    assert (values.mean(axis=0) < narrow[1]).all()
    # Student's 2.3 standard errors of 9 prompts against 1.96 of 400
    assert np.mean(wide[1] - wide[0]) / np.mean(narrow[1] - narrow[0]) == pytest.approx(20 / 3 * 2.3 / 1.96, rel=0.3)
    assert np.isnan(mean_band(values[:1], Sampling(10, level=0.95, seed=0))).all()


def test_too_few_blocks_and_prompts_have_reasons() -> None:
    short = planted((2,), 5, prompts=3, noise=0.1, seed=0)
    cut = stage_boundaries(short, 4, 2, Sampling(10, level=0.95, seed=0))
    assert cut.reason == "4 stages of at least 2 blocks need 8 blocks, and the model has 5"
    assert np.isnan(np.stack(cut[:4])).all()
    held = held_out_errors(short, 5, 2, folds=10, seed=0)
    assert np.isfinite(held.error[:2]).all()
    assert np.isnan(held.error[2:]).all()
    assert held.best == 2
    alone = planted((6,), 12, prompts=1, noise=0.1, seed=0)
    cut = stage_boundaries(alone, 2, 2, Sampling(10, level=0.95, seed=0))
    assert (cut.block.tolist(), cut.reason) == ([6.0], "an interval needs at least two prompts, and there is one")
    assert np.isnan(cut.ci_low).all()
    assert held_out_errors(alone, 5, 2, folds=10, seed=0).reason.endswith("at least two of them, and there is one")


def test_without_curves_or_prompts_there_are_reasons() -> None:
    nothing = Curves(np.empty((3, 0, 12)), np.empty((0, 12)))
    nobody = Curves(np.empty((0, 2, 12)), np.empty((0, 12)))
    fixed = Curves(np.empty((3, 0, 12)), np.arange(12.0)[None])
    for curves, reason in ((nothing, "no curve changes over the blocks"), (nobody, "no prompt has a value of every")):
        assert stage_boundaries(curves, 2, 2, Sampling(10, level=0.95, seed=0)).reason.startswith(reason)
        assert held_out_errors(curves, 5, 2, folds=10, seed=0).reason.startswith(reason)
    assert stage_boundaries(fixed, 2, 2, Sampling(10, level=0.95, seed=0)).block.tolist() == [6.0]
    assert "nothing can be held out" in held_out_errors(fixed, 5, 2, folds=10, seed=0).reason


def test_a_model_of_one_block_does_not_fail() -> None:
    one = Curves(np.ones((3, 2, 1)), np.empty((0, 1)))
    assert held_out_errors(one, 5, 2, folds=3, seed=0).best == 1
    assert "need 4 blocks" in stage_boundaries(one, 2, 2, Sampling(5, level=0.95, seed=0)).reason
