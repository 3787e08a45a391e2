"""Prompts that belong together are drawn together: in every interval and test, against naive ones and by simulation."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from bathyscope.errors import PromptError
from bathyscope.pages.figures.of.drop_and_swap import drop_and_swap
from bathyscope.pages.figures.of.prediction_fall import prediction_fall
from bathyscope.statistics.bootstrap import mean_interval, mean_intervals, mean_variance
from bathyscope.statistics.depth_score import depth_score
from bathyscope.statistics.difference import (
    Contrast,
    Term,
    contrast,
    paired_difference,
    two_sample_difference,
)
from bathyscope.statistics.effective_depth import DepthInputs, effective_depth
from bathyscope.statistics.permutation import permutation_p
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.splits import split
from bathyscope.statistics.stages import Curves, held_out_errors, mean_band, stage_boundaries
from bathyscope.statistics.trend import trend

SIZES = (3, 1, 4, 1, 5, 2, 6)
CLUSTER = np.repeat(np.arange(len(SIZES)), SIZES)
HARD = np.random.default_rng(9).permutation(np.repeat([1.0, 2.0, 4.0], [12, 6, 4]))


def noise(size: int | tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size)


def reading(values: np.ndarray, weights: np.ndarray | None = None, cluster: np.ndarray | None = None) -> Reading:
    """The mean of one number a prompt."""
    ones = np.ones(len(values)) if weights is None else weights
    return Reading(values[:, None], ones, lambda mean: mean[..., 0], cluster=cluster)


def inputs(copies: int, cluster: np.ndarray | None = None) -> DepthInputs:
    """Six prompts of twelve blocks, each so many times in a row."""
    draw = np.random.default_rng(4)
    fall = 1 / (1 + np.exp(np.arange(12) - draw.normal(6, 1, size=(6, 1)))) + draw.normal(0, 0.01, size=(6, 12))
    cosine = 0.5 - fall
    curves = [np.repeat(values, copies, axis=0) for values in (cosine, fall, 1 - fall)]
    tokens, settle = np.repeat(draw.integers(5, 30, size=6), copies), np.repeat(draw.uniform(2, 9, size=6), copies)
    return DepthInputs(*curves, tokens, settle_depth=settle, prediction_depth=settle - 1, cluster=cluster)


def numbers(found: Contrast) -> list[float]:
    return [found.estimate, found.ci_low, found.ci_high, found.standard_error, found.p_value, found.positive_share]


def assert_same(left: Any, right: Any) -> None:
    """Both are results of one kind whose numbers agree but for the order in which a processor adds."""
    assert type(left) is type(right)
    if is_dataclass(left):
        left, right = ([getattr(side, field.name) for field in fields(left)] for side in (left, right))
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        left, right = list(left.values()), list(right.values())
    if isinstance(left, list | tuple):
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    elif isinstance(left, float | np.ndarray):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
    else:
        assert left == right


def test_clusters_of_one_prompt_change_nothing() -> None:
    alone, values, other = np.arange(22), noise(22, 0), noise(22, 1)
    tokens = np.random.default_rng(2).integers(1, 50, size=22).astype(float)
    assert_same(mean_interval(values, Sampling(cluster=alone)), mean_interval(values))
    assert_same(effective_depth(inputs(1, np.arange(6)), Sampling(200)), effective_depth(inputs(1), Sampling(200)))
    plain, clustered = ([reading(v, tokens, c) for v in (values, other)] for c in (None, alone))
    assert_same(paired_difference(*clustered, Sampling(300)), paired_difference(*plain, Sampling(300)))
    apart = [clustered[0], reading(other, tokens, alone + 22)]
    assert_same(two_sample_difference(*apart, Sampling(300)), two_sample_difference(*plain, Sampling(300)))
    assert permutation_p(*apart, permutations=99) == pytest.approx(permutation_p(*plain, permutations=99), rel=1e-12)
    assert_same(trend(values, HARD, cluster=alone, permutations=99), trend(values, HARD, permutations=99))
    effects = np.abs(noise((22, 5), 3))
    assert_same(depth_score(effects, "max", Sampling(99, cluster=alone)), depth_score(effects, "max", Sampling(99)))


def test_columns_have_the_clustered_interval_that_each_has_alone() -> None:
    values = noise((22, 3), 11)
    values[4:9, 1] = np.nan
    for column, found in enumerate(mean_intervals(values, Sampling(cluster=CLUSTER))):
        there = ~np.isnan(values[:, column])
        assert found == pytest.approx(mean_interval(values[there, column], Sampling(cluster=CLUSTER[there])), rel=1e-12)
        assert found != pytest.approx(mean_interval(values[there, column]), rel=1e-3)


def stages_of(copies: int, cluster: np.ndarray | None = None) -> list[np.ndarray]:
    """All that is told of the stages of six prompts, each so many times in a row."""
    level = np.repeat([[0.0, 2.0, 1.0], [1.0, -1.0, 0.5]], 4, axis=1)
    by_prompt = np.repeat(level + noise((6, 1, 1), 7) + 0.9 * noise((6, 2, 12), 8), copies, axis=0)
    curves = Curves(by_prompt, np.empty((0, 12)), cluster)
    cut = stage_boundaries(curves, 3, 2, Sampling(60, level=0.95, seed=1))
    held = held_out_errors(curves, 4, 2, folds=3, seed=1)
    band = mean_band(by_prompt, Sampling(60, level=0.95, seed=1, cluster=cluster))
    return [np.asarray(one, dtype=float) for one in (*cut[:-1], *held[:-1], *band)]


def test_stages_of_copies_are_those_of_one_prompt_each() -> None:
    alone, together, apart = stages_of(1), stages_of(4, np.repeat(np.arange(6), 4)), stages_of(4)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-12)
    widths = [found[-1] - found[-2] for found in (together, apart)]
    assert (widths[1] < 0.7 * widths[0]).all()


def test_curves_within_one_cluster_have_no_intervals() -> None:
    curves = Curves(noise((3, 2, 12), 8), np.empty((0, 12)), np.zeros(3, dtype=np.intp))
    cut = stage_boundaries(curves, 3, 2, Sampling(60, level=0.95, seed=1))
    assert np.isfinite(cut.block).all()
    assert np.isnan(cut.ci_low).all()
    assert cut.reason == "an interval needs at least two clusters, and there is one"
    held = held_out_errors(curves, 4, 2, folds=3, seed=1)
    assert held.reason == "holding clusters out needs at least two of them, and there is one"


def test_contrasts_of_figures_of_copies_are_those_of_one_prompt_each() -> None:
    together, tokens = np.repeat(np.arange(6), 4), np.array([3.0, 9.0, 4.0, 7.0, 5.0, 8.0])
    drop, swap, share = noise((6, 5), 1) ** 2, noise((6, 4), 2) ** 2, noise(5, 3)
    kl = np.cumsum(noise((6, 6), 4) ** 2, axis=1)[:, ::-1]
    copied = [np.repeat(one, 4, axis=0) for one in (drop, swap, tokens, kl)]
    wanted = drop_and_swap(drop, swap, tokens)
    for one, other in zip(drop_and_swap(*copied[:3], cluster_P=together), wanted, strict=True):
        assert numbers(one)[:4] == pytest.approx(numbers(other)[:4])
    rho = prediction_fall(copied[3], share, copied[2], together)
    assert numbers(rho)[:3] == pytest.approx(numbers(prediction_fall(kl, share, tokens))[:3])


def test_splits_deal_out_whole_clusters() -> None:
    found = split(CLUSTER.size, 0.2, 0.3, 0, CLUSTER)
    assert sorted([*found.fit, *found.choose, *found.test]) == list(range(CLUSTER.size))
    sides = [set(CLUSTER[list(part)]) for part in (found.fit, found.choose, found.test)]
    assert [len(side) for side in sides] == [4, 1, 2]
    assert len(set.union(*sides)) == 7
    assert split(9, 0.2, 0.3, 5, np.arange(9)) == split(9, 0.2, 0.3, 5)
    with pytest.raises(PromptError, match=r"at least 4 clusters of prompts \(to fit, .*; 3 given"):
        split(9, 0.2, 0.3, 5, np.repeat(np.arange(3), 3))


def test_clusters_of_copies_are_one_prompt_each() -> None:
    """What a copy adds is nothing, where without clusters it would seem to be one prompt more."""
    together = np.repeat(np.arange(6), 4)
    for name, one in effective_depth(inputs(4, together), Sampling(300)).items():
        wanted = effective_depth(inputs(1), Sampling(300))[name]
        np.testing.assert_allclose([one.depth, one.ci_low, one.ci_high], [wanted.depth, wanted.ci_low, wanted.ci_high])
    values, hard = noise(9, 5), np.repeat([1.0, 2.0, 3.0], 3)
    thrice = np.repeat(np.arange(9), 3)
    assert mean_interval(values[thrice], Sampling(cluster=thrice)) == pytest.approx(mean_interval(values))
    assert mean_variance(values[thrice], thrice) == pytest.approx(mean_variance(values))
    one, copied = (
        paired_difference(reading(v, cluster=c), reading(v**2, cluster=c), Sampling(300))
        for v, c in ((values, None), (values[thrice], thrice))
    )
    assert numbers(copied) == pytest.approx(numbers(one))
    single, many = trend(values, hard, permutations=511), trend(values[thrice], hard[thrice], cluster=thrice)
    assert many.p_value == pytest.approx(trend(values, hard).p_value)
    assert (many.slope, many.ci_low, many.ci_high) == pytest.approx((single.slope, single.ci_low, single.ci_high))
    narrow = mean_interval(values[thrice])
    assert narrow.high - narrow.low < 0.7 * (mean_interval(values).high - mean_interval(values).low)


def test_a_mean_is_drawn_by_whole_clusters() -> None:
    values, members = noise(CLUSTER.size, 6), [np.flatnonzero(place == CLUSTER) for place in range(len(SIZES))]
    drawn = np.random.default_rng(0).integers(len(SIZES), size=(1000, len(SIZES)))
    means = np.array([np.concatenate([values[members[place]] for place in row]).mean() for row in drawn])
    share = np.array(SIZES) / sum(SIZES)
    form = np.diag(share) @ (np.eye(7) - np.ones((7, 1)) * share)
    form = form.T @ form
    shrinkage, freedom = np.trace(form) / (share**2).sum(), np.trace(form) ** 2 / np.trace(form @ form)
    reach = stats.t.ppf(0.975, freedom) * means.std(ddof=1) / math.sqrt(shrinkage)
    bias = 2 * (np.median(means) - values.mean())
    wanted = (values.mean() - reach - max(bias, 0), values.mean() + reach + max(-bias, 0))
    assert mean_interval(values, Sampling(cluster=CLUSTER)) == pytest.approx(wanted)
    variance, own_freedom = mean_variance(values, CLUSTER)
    assert own_freedom == pytest.approx(freedom)
    # resampling shows the same variance, but for what is curved in a mean over clusters of unequal size
    assert math.sqrt(variance * shrinkage) == pytest.approx(means.std(ddof=1), rel=0.15)


def test_groups_that_share_clusters_are_drawn_together() -> None:
    """Easy and hard questions on the same pictures are pairs, and need not come in the same order or number."""
    easy, hard = noise(12, 7), noise(12, 8)
    shuffled = np.random.default_rng(1).permutation(12)
    found = two_sample_difference(reading(easy, cluster=np.arange(12)), reading(hard[shuffled], cluster=shuffled))
    assert numbers(found) == pytest.approx(numbers(paired_difference(reading(easy), reading(hard))))
    pictures = 3 * noise(12, 9)
    twice = np.repeat(np.arange(12), 2)
    shared = two_sample_difference(
        reading(easy + pictures, cluster=np.arange(12)), reading((hard + pictures)[twice], cluster=twice)
    )
    apart = two_sample_difference(reading(easy + pictures), reading(hard + pictures))
    assert shared.standard_error < 0.6 * apart.standard_error


def test_cohorts_keep_their_order_whichever_are_drawn_together() -> None:
    first, second, third = (noise(n, seed) + 10 * seed for n, seed in ((4, 0), (5, 1), (6, 2)))
    cohorts = [
        [Term(reading(first, cluster=np.arange(4)), 1.0)],
        [Term(reading(second, cluster=np.arange(20, 25)), -1.0)],
        [Term(reading(third, cluster=np.arange(6)), 2.0)],
    ]
    found = contrast(cohorts, Sampling(50))
    assert found.n_prompts == (4, 5, 6)
    assert found.estimates == pytest.approx((first.mean(), second.mean(), third.mean()))
    assert found.estimate == pytest.approx(first.mean() - second.mean() + 2 * third.mean())


def test_a_slope_leaves_out_one_cluster_at_a_time() -> None:
    """CR3 with Satterthwaite's degrees of freedom, from fits to what is left and from dense matrices."""
    y, n = 0.2 * HARD + noise(HARD.size, 3) + noise(7, 4)[CLUSTER], HARD.size
    design = np.stack([np.ones(n), HARD], axis=1)
    fit = OLS(y, design).fit()
    without = [OLS(y[g != CLUSTER], design[g != CLUSTER]).fit().params[1] for g in range(7)]
    variance = sum((slope - fit.params[1]) ** 2 for slope in without)
    maker = np.eye(n) - design @ np.linalg.pinv(design)
    weights = np.zeros((7, n))
    for g in range(7):
        own = g == CLUSTER
        left = np.linalg.inv(maker[np.ix_(own, own)])
        weights[g, own] = (np.linalg.inv(design.T @ design) @ design[own].T @ left)[1]
    form = maker @ weights.T @ weights @ maker
    assert y @ form @ y == pytest.approx(variance), "both say the same"
    reach = stats.t.ppf(0.975, np.trace(form) ** 2 / np.trace(form @ form)) * math.sqrt(variance)
    found = trend(y, HARD, cluster=CLUSTER, permutations=1)
    assert (found.ci_low, found.ci_high) == pytest.approx((fit.params[1] - reach, fit.params[1] + reach), rel=1e-9)


def test_the_signs_of_a_cluster_go_together() -> None:
    y, x = noise(HARD.size, 5), HARD - HARD.mean()
    onto = (CLUSTER[:, None] == np.arange(7)).astype(float)

    def clear(y: np.ndarray) -> float:
        slope = stats.linregress(x, y).slope
        residual = y - y.mean() - slope * x
        return float(abs(slope) / np.sqrt((((x * residual) @ onto) ** 2).sum()))

    every = [clear((y - y.mean()) * np.array(signs)[CLUSTER]) for signs in itertools.product([1, -1], repeat=7)]
    share = np.mean(np.array(every) >= clear(y) * (1 - 1e-9))
    assert trend(y, HARD, cluster=CLUSTER, permutations=128).p_value == pytest.approx(share, abs=1e-12)


def test_clusters_are_dealt_to_groups_whole() -> None:
    first, second = np.repeat([0, 1, 2], [2, 1, 3]), np.repeat([3, 4, 5, 6], [1, 2, 2, 1])
    values, cluster = np.concatenate([noise(6, 1), noise(6, 2) + 0.5]), np.concatenate([first, second])

    def apart(chosen: tuple[int, ...]) -> float:
        inside = np.isin(cluster, chosen)
        return abs(float(values[inside].mean() - values[~inside].mean()))

    share = np.mean([apart(chosen) >= apart((0, 1, 2)) - 1e-12 for chosen in itertools.combinations(range(7), 3)])
    one, other = reading(values[:6], cluster=first), reading(values[6:], cluster=second)
    assert permutation_p(one, other) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (
            np.repeat([0, 1], 11),
            "a trend needs at least 3 clusters of prompts with a score and a difficulty; there are 2",
        ),
        (np.where(HARD == 4, 0, np.arange(22)), ""),
        (np.where(HARD > 1, 0, np.arange(22)), "one cluster decides the slope alone, so there is no interval"),
    ],
)
def test_slopes_of_few_clusters(cluster: np.ndarray, reason: str) -> None:
    found = trend(noise(22, 0), HARD, cluster=cluster, permutations=9)
    assert found.reason == reason
    assert math.isnan(found.ci_low) == bool(reason)


@pytest.mark.thorough
@pytest.mark.parametrize("within", [0.3, 1.0])
@pytest.mark.parametrize("sizes", [(10,) * 8, (4, 6, 8, 10, 10, 12, 14, 16)], ids=["equal", "unequal"])
def test_intervals_of_eight_clusters_hold_the_truth(sizes: tuple[int, ...], within: float) -> None:
    """At least 90 % of a mean, a paired difference and a slope within clusters; without clusters the mean's fails."""
    draw, cluster = np.random.default_rng(0), np.repeat(np.arange(8), sizes)
    covered = []
    for seed in range(600):
        values = draw.standard_normal(8)[cluster] + within * draw.standard_normal(cluster.size)
        change = draw.standard_normal(8)[cluster] + within * draw.standard_normal(cluster.size)
        hard = draw.integers(1, 4, size=cluster.size).astype(float)
        tilt = 0.5 * draw.standard_normal(8)[cluster]
        mean, plain = (
            mean_interval(values, Sampling(seed=seed, cluster=cluster)),
            mean_interval(values, Sampling(seed=seed)),
        )
        pair = paired_difference(
            reading(values, cluster=cluster), reading(values + change, cluster=cluster), Sampling(500, seed=seed)
        )
        slope = trend(values + tilt * hard, hard, cluster=cluster, permutations=1)
        ends = [mean, plain, (pair.ci_low, pair.ci_high), (slope.ci_low, slope.ci_high)]
        covered.append([low <= 0 <= high for low, high in ends])
    of_mean, of_plain, of_pair, of_slope = np.mean(covered, axis=0)
    assert of_mean >= 0.9
    assert of_pair >= 0.9
    assert of_slope >= 0.9
    assert of_plain < 0.75


@pytest.mark.thorough
def test_a_slope_over_eight_clusters_seldom_seems_to_be_there() -> None:
    """Difficulty varies within clusters; their slopes differ, and are 0 in the mean."""
    draw, cluster = np.random.default_rng(1), np.repeat(np.arange(8), 9)
    hard = np.tile([1.0, 2.0, 3.0], 24)
    found = [
        trend(
            (0.5 * draw.standard_normal(8)[cluster]) * hard + draw.standard_normal(72),
            hard,
            cluster=cluster,
            permutations=255,
            seed=seed,
        ).p_value
        for seed in range(1000)
    ]
    assert 0.03 <= np.mean(np.array(found) <= 0.05) <= 0.075
