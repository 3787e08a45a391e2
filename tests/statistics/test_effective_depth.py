from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bathyscope.statistics.effective_depth import ESTIMATORS, DepthInputs, blocks_done, effective_depth
from bathyscope.statistics.sampling import Sampling

BLOCKS = 8
COSINE = np.array([0.2, -0.3, -0.2, -0.1, -0.1, 0.3, 0.4, 0.2])
KL = np.array([8.0, 8.0, 7.0, 6.0, 5.0, 3.0, 1.0, 0.5])
OVERLAP = np.array([0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.4, 0.8])
EFFECT = np.triu(np.ones((BLOCKS, BLOCKS)), k=1) * np.array([0, 0, 3, 0, 1, 0, 0, 0])[:, None]
DEPTHS = {
    "cosine": 4,
    "kl": 5,
    "overlap": 6,
    "interpolated_cosine": 4.25,
    "interpolated_kl": 4.5,
    "interpolated_overlap": 5.5,
    "settle": 5.25,
    "prediction": 6.5,
    "centre_of_mass": 2.5,
}


def inputs(n_prompts: int = 6, noise: float = 0.0, seed: int = 0) -> DepthInputs:
    rng = np.random.default_rng(seed)

    def noisy(curve: np.ndarray) -> np.ndarray:
        return curve * (1 + noise * rng.standard_normal((n_prompts, *curve.shape)))

    return DepthInputs(
        cosine=np.mean([noisy(COSINE), noisy(COSINE), noisy(COSINE)], axis=0),
        kl=noisy(KL),
        overlap=noisy(OVERLAP),
        n_tokens=rng.integers(20, 200, size=n_prompts),
        effect_future=np.abs(noisy(EFFECT)),
        settle_depth=noisy(np.array([5.25]))[:, 0],
        prediction_depth=noisy(np.array([6.5]))[:, 0],
    )


def test_equal_prompts_give_the_depths_of_their_curve_and_what_their_number_leaves_open() -> None:
    curves = inputs()
    # of n prompts that agree, a share of 1 − 0.025^(1/n) of all may be unlike them, anywhere from 0 to L
    others = 1 - 0.025 ** (1 / len(curves.n_tokens))
    found = effective_depth(curves, Sampling(50))
    assert tuple(found) == ESTIMATORS
    for name, depth in DEPTHS.items():
        estimate = found[name]
        assert estimate.index == pytest.approx(depth), name
        assert estimate.ratio == pytest.approx((depth + blocks_done(name)) / BLOCKS)
        assert 0 <= estimate.ratio <= 1
        ends = (estimate.ci_low, estimate.depth, estimate.ci_high)
        # a curve is read off the mean of all; settle and prediction are a number of each prompt
        below, above = (others * depth, others * (BLOCKS - depth)) if name in ("settle", "prediction") else (0.0, 0.0)
        done = depth + blocks_done(name)
        assert ends == pytest.approx((done - below, done, done + above))
        assert (estimate.crossing_share, estimate.reason) == (1.0, "")


def test_ratio_follows_the_paper() -> None:
    n_blocks = 28
    cosine = np.where(np.arange(n_blocks) <= 17, -0.1, 0.1)[None]
    flat = np.ones((1, n_blocks))
    found = effective_depth(DepthInputs(cosine, flat, flat * 0, np.ones(1)))["cosine"]
    assert (found.index, found.ratio) == (17, 18 / 28)


def test_a_boundary_is_as_many_blocks_done_so_that_no_ratio_is_above_1() -> None:
    """Tokens that settle at the last boundary, L of L: (L + 1)/L is the ratio of blocks, which are counted from 0."""
    last = np.full(6, float(BLOCKS))
    found = effective_depth(replace(inputs(), settle_depth=last, prediction_depth=last), Sampling(50))
    for name in ("settle", "prediction"):
        one = found[name]
        assert (one.index, one.ratio, one.depth) == (BLOCKS, 1.0, BLOCKS)
        assert one.ci_high <= BLOCKS


def test_curves_are_weighted_by_tokens_and_the_effect_by_prompts() -> None:
    early, late = np.array([-1.0, 1.0, 1.0, 1.0]), np.array([-1.0, -1.0, -1.0, 1.0])
    cosine = np.stack([early, late])
    kl = np.array([[4.0, 1.0, 1.0, 1.0], [4.0, 4.0, 4.0, 1.0]])
    overlap = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    effect = np.zeros((2, 4, 4))
    effect[0, 0, 1:], effect[1, 2, 3] = 1, 1
    for n_tokens, depths in (([9, 1], (0, 1, 1)), ([1, 9], (2, math.nan, math.nan))):
        found = effective_depth(DepthInputs(cosine, kl, overlap, np.array(n_tokens), effect))
        got = [found[name].index for name in ("cosine", "kl", "overlap")]
        np.testing.assert_array_equal(got, depths)
        assert found["centre_of_mass"].index == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["cosine", "kl", "overlap"])
def test_the_whole_interval_is_what_the_interpolated_one_touches(name: str) -> None:
    for seed in range(30):
        found = effective_depth(inputs(10, noise=0.5, seed=seed), Sampling(200))
        whole, real = found[name], found[f"interpolated_{name}"]
        if math.isnan(real.index):
            continue
        # A cosine depth l holds positions in (l, l+1]; a kl or overlap depth b those in [b−1, b), 0 only 0.
        span = 0 if name == "cosine" else -1
        low, high = whole.ci_low - blocks_done(name), whole.ci_high - blocks_done(name)
        half = blocks_done(f"interpolated_{name}")
        real_low, real_high = real.ci_low - half, real.ci_high - half
        assert low + span <= real_low <= low + span + 1 or low == real_low == 0
        assert high + span <= real_high <= BLOCKS - 1
        assert 0 <= low <= whole.index <= high <= BLOCKS - 2
        assert half <= real.ci_low <= real.depth <= real.ci_high <= BLOCKS - 1 + half
        assert whole.crossing_share == real.crossing_share


def test_more_noise_gives_wider_intervals_and_the_seed_decides() -> None:
    calm, noisy = (effective_depth(inputs(10, noise), Sampling(300)) for noise in (0.05, 0.2))
    for name in ESTIMATORS[3:]:
        narrow, wide = (found[name].ci_high - found[name].ci_low for found in (calm, noisy))
        assert 0 < narrow < wide, name
    again = effective_depth(inputs(10, 0.2), Sampling(300))
    other = effective_depth(inputs(10, 0.2), Sampling(300, seed=1))
    assert again == noisy
    assert other["interpolated_kl"].ci_low != noisy["interpolated_kl"].ci_low
    assert other["interpolated_kl"].index == noisy["interpolated_kl"].index


def test_level_and_thresholds_are_followed() -> None:
    curves = inputs(10, 0.1)
    narrow, wide = (effective_depth(curves, Sampling(level=level))["interpolated_overlap"] for level in (0.5, 0.99))
    assert wide.ci_low < narrow.ci_low < narrow.ci_high < wide.ci_high
    other = effective_depth(inputs(), kl_fraction=0.25, overlap_threshold=0.05)
    assert (other["kl"].index, other["overlap"].index) == (6, 2)


def test_crossing_share_is_the_share_of_resamples_that_cross() -> None:
    never, late = np.zeros((1, 4)), np.array([[0.0, 0.0, 1.0, 1.0]])
    overlap = np.concatenate([never, late])
    flat = np.ones((2, 4))
    curves = DepthInputs(flat, flat, overlap, np.array([10.0, 10.0]))
    found = effective_depth(curves, Sampling(4000))["overlap"]
    # Two prompts are drawn twice; without the second prompt (chance 1/4) nothing crosses.
    assert found.index == 2
    assert found.crossing_share == pytest.approx(0.75, abs=0.03)
    rarely = effective_depth(replace(curves, n_tokens=np.array([30.0, 10.0])), Sampling(4000))["overlap"]
    assert math.isnan(rarely.index)
    assert math.isnan(rarely.ci_low)
    assert rarely.crossing_share == pytest.approx(0.25, abs=0.03)
    assert rarely.reason == "overlap never exceeds 0.3 before the last block (highest there: 0.25)"


def test_no_crossing_is_nan_with_the_reason() -> None:
    flat = np.ones((3, 5))
    found = effective_depth(DepthInputs(flat, flat, flat * 0, np.ones(3)), Sampling(20))
    for name, estimate in found.items():
        assert np.isnan([estimate.index, estimate.ratio, estimate.ci_low, estimate.ci_high]).all(), name
        assert estimate.crossing_share == 0 or name in ("settle", "prediction", "centre_of_mass")
    assert "nowhere below zero" in found["cosine"].reason
    assert found["interpolated_kl"].reason == found["kl"].reason
    assert found["settle"].reason == "settle depths of tokens were not measured"
    assert found["prediction"].reason == "prediction depths of tokens were not measured"
    assert found["kl"].reason.startswith("KL never falls below 0.5 of its maximum before the last block")
    assert found["overlap"].reason.startswith("overlap never exceeds 0.3")
    assert found["centre_of_mass"].reason == "future skip effects were not measured"


def test_one_prompt_has_depths_but_no_interval() -> None:
    found = effective_depth(inputs(1))
    for name, depth in DEPTHS.items():
        estimate = found[name]
        assert estimate.index == pytest.approx(depth), name
        assert np.isnan([estimate.ci_low, estimate.ci_high, estimate.crossing_share]).all()
        assert estimate.reason == "an interval needs at least two prompts with values, and there is one"


def with_first_kl(first: float) -> DepthInputs:
    """KL level at 8 with a dip at block input 1, falling from 20 on, and ``first`` at block input 0."""
    b = np.arange(28.0)
    kl = 8 - np.maximum(b - 20, 0) * 1.1 + 0.1 * np.sin(2 * b)
    kl[0], kl[1] = first, 7.8
    overlap = np.maximum(b - 18, 0) / 10
    prompts = np.random.default_rng(0).normal(1, 0.01, size=(8, 1))
    return DepthInputs(np.ones((8, 28)), kl * prompts, overlap * prompts, np.full(8, 100.0))


def test_a_peak_at_block_input_0_puts_the_published_kl_depth_to_the_front() -> None:
    usual = effective_depth(with_first_kl(8.0))
    assert usual["kl"].index == 24
    barely = effective_depth(with_first_kl(15.7))
    # half of 15.7 is just above the dip and just below the level: one entry decides
    assert barely["kl"].index == 1
    assert barely["interpolated_kl"].index < 1
    far = effective_depth(with_first_kl(40.0))
    assert far["kl"].index == 1
    for found in (usual, barely, far):
        assert found["overlap"] == usual["overlap"]


def test_token_depths_are_weighted_by_tokens_and_may_reach_the_last_boundary() -> None:
    n_tokens = np.array([30.0, 10.0, 10.0])
    settle, prediction = np.array([BLOCKS, 6.0, np.nan]), np.full(3, BLOCKS)
    curves = replace(inputs(3), n_tokens=n_tokens, settle_depth=settle, prediction_depth=prediction)
    found = effective_depth(curves, Sampling(200))
    # each prompt counts the same, whatever its tokens
    assert found["settle"].index == pytest.approx((BLOCKS + 6) / 2)
    assert found["settle"].ci_low < found["settle"].index < found["settle"].ci_high == BLOCKS
    assert found["settle"].crossing_share == 1
    prediction = found["prediction"]
    assert (prediction.index, prediction.depth, prediction.ratio) == (BLOCKS, BLOCKS, 1)
    # three prompts that agree leave open that others are at the first boundary
    assert (prediction.ci_low, prediction.ci_high) == (pytest.approx(BLOCKS * 0.025 ** (1 / 3)), BLOCKS)
    nowhere = effective_depth(replace(curves, settle_depth=np.full(3, np.nan)))["settle"]
    assert nowhere.reason == "no prompt has a settle depth"


def test_prompts_too_short_for_a_skip_position_are_left_out() -> None:
    curves = inputs(6, 0.1)
    assert curves.effect_future is not None
    gaps = curves.effect_future.copy()
    gaps[[1, 4]] = np.nan
    kept = [0, 2, 3, 5]
    given = {field.name: getattr(curves, field.name) for field in fields(curves)}
    only_kept = DepthInputs(**{name: None if values is None else values[kept] for name, values in given.items()})
    with_gaps = effective_depth(replace(curves, effect_future=gaps))
    assert with_gaps["centre_of_mass"] == effective_depth(only_kept)["centre_of_mass"]
    assert with_gaps["kl"] == effective_depth(curves)["kl"]


@given(arrays(float, st.integers(1, 9), elements=st.sampled_from([-1.0, -0.25, -0.0, 0.0, 0.5, np.nan])))
@settings(max_examples=60)
def test_there_is_a_reason_exactly_where_there_is_no_depth(curve: np.ndarray) -> None:
    cosine = np.array([curve, curve])  # two prompts, so that there is an interval wherever there is a depth
    effect = np.abs(cosine)[..., None] * np.triu(np.ones((curve.size, curve.size)), k=1)
    tokens = np.abs(cosine[:, 0])
    size = np.abs(cosine)
    inputs = DepthInputs(cosine, size, size, np.ones(2), effect, tokens, tokens)
    for name, one in effective_depth(inputs, Sampling(2)).items():
        assert bool(one.reason) == math.isnan(one.index), name


def test_effects_that_tell_nothing_say_why() -> None:
    curves = inputs(3)
    everywhere_nan = np.full((3, BLOCKS, BLOCKS), np.nan)
    none = effective_depth(replace(curves, effect_future=everywhere_nan))["centre_of_mass"]
    assert none.reason == "no prompt has a future skip effect"
    zero = effective_depth(replace(curves, effect_future=np.zeros_like(everywhere_nan)))
    assert zero["centre_of_mass"].reason == "the future skip effect is zero at every block"
    infinite = np.ones((3, BLOCKS, BLOCKS))
    infinite[0, 2, 5] = np.inf
    broken = effective_depth(replace(curves, effect_future=infinite))["centre_of_mass"]
    assert broken.reason == "the future skip effect is not finite at 1 of 8 blocks"


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_very_shallow_models(n_blocks: int) -> None:
    curve = np.array([[-1.0, 1.0]] * 3)[:, :n_blocks]
    falling, rising = np.array([[4.0, 1.0]] * 3)[:, :n_blocks], np.array([[0.5, 0.9]] * 3)[:, :n_blocks]
    effect = np.triu(np.ones((3, n_blocks, n_blocks)), k=1)
    found = effective_depth(DepthInputs(curve, falling, rising, np.ones(3), effect), Sampling(20))
    if n_blocks == 1:
        assert found["cosine"].reason == "the model has a single block, and a depth needs two"
        assert found["overlap"].reason == found["cosine"].reason
        assert found["centre_of_mass"].reason == "the future skip effect is zero at every block"
        assert all(math.isnan(estimate.ci_low) for estimate in found.values())
    else:
        assert (found["cosine"].index, found["interpolated_cosine"].index) == (0, 0.5)
        assert found["kl"].reason.startswith("KL never falls")
        assert found["overlap"].index == 0
        assert found["centre_of_mass"].index == 0


def test_all_estimators_stand_on_one_scale() -> None:
    """The criteria of one place: block l − 1 is the last one below, so that l blocks are done."""
    blocks, place = 12, 5
    index = np.arange(blocks)
    cosine = np.where(index < place, -0.25, 0.25)[None]
    boundary = np.where(index < place, 1.0, 0.0)[None]
    curves = DepthInputs(
        cosine,
        boundary,
        1 - boundary,
        np.ones(1),
        settle_depth=np.array([float(place)]),
        prediction_depth=np.array([float(place)]),
    )
    found = effective_depth(curves)
    for name in ("cosine", "kl", "overlap", "settle", "prediction"):
        assert found[name].depth == place, name
        assert found[name].ratio == place / blocks, name
    assert (found["cosine"].index, found["kl"].index) == (place - 1, place)
    # between the middles of the last block below and the first above: the boundary between them
    assert found["interpolated_cosine"].depth == place
    assert found["interpolated_kl"].depth == place - 0.5


def test_equal_effects_have_their_centre_in_the_middle() -> None:
    ones = np.ones((1, 12))
    # but for the last block, which no later one can show
    effect = np.triu(np.ones((1, 12, 12)), k=1)
    found = effective_depth(DepthInputs(ones, ones, ones * 0, np.ones(1), effect))["centre_of_mass"]
    assert found.ratio == pytest.approx(11 / 24)
