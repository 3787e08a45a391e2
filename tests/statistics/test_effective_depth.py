from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from bathyscope.errors import OptionError
from bathyscope.statistics.effective_depth import ESTIMATORS, DepthInputs, effective_depth

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
    "centre_of_mass": 2.5,
}


def inputs(n_prompts: int = 6, noise: float = 0.0, seed: int = 0) -> DepthInputs:
    rng = np.random.default_rng(seed)

    def noisy(curve: np.ndarray) -> np.ndarray:
        return curve * (1 + noise * rng.standard_normal((n_prompts, *curve.shape)))

    return DepthInputs(
        cos_attn=noisy(COSINE),
        cos_mlp=noisy(COSINE),
        cos_block=noisy(COSINE),
        kl=noisy(KL),
        overlap=noisy(OVERLAP),
        n_tokens=rng.integers(20, 200, size=n_prompts),
        effect_future=np.abs(noisy(EFFECT)),
    )


def test_equal_prompts_give_the_depths_of_their_curve_without_uncertainty() -> None:
    found = effective_depth(inputs(), resamples=50)
    assert tuple(found) == ESTIMATORS
    for name, depth in DEPTHS.items():
        estimate = found[name]
        assert estimate.depth == pytest.approx(depth), name
        assert estimate.ratio == pytest.approx((depth + 1) / BLOCKS)
        assert (estimate.ci_low, estimate.ci_high) == pytest.approx((depth, depth))
        assert (estimate.crossing_share, estimate.reason) == (1.0, "")


def test_ratio_follows_the_paper() -> None:
    n_blocks = 28
    cosine = np.where(np.arange(n_blocks) <= 17, -0.1, 0.1)[None]
    flat = np.ones((1, n_blocks))
    found = effective_depth(DepthInputs(cosine, cosine, cosine, flat, flat * 0, np.ones(1)))["cosine"]
    assert (found.depth, found.ratio) == (17, 18 / 28)


def test_curves_are_weighted_by_tokens_and_the_effect_by_prompts() -> None:
    early, late = np.array([-1.0, 1.0, 1.0, 1.0]), np.array([-1.0, -1.0, -1.0, 1.0])
    cosine = np.stack([early, late])
    kl = np.array([[4.0, 1.0, 1.0, 1.0], [4.0, 4.0, 4.0, 1.0]])
    overlap = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    effect = np.zeros((2, 4, 4))
    effect[0, 0, 1:], effect[1, 2, 3] = 1, 1
    for n_tokens, depths in (([9, 1], (0, 1, 1)), ([1, 9], (2, math.nan, math.nan))):
        found = effective_depth(DepthInputs(cosine, cosine, cosine, kl, overlap, np.array(n_tokens), effect))
        got = [found[name].depth for name in ("cosine", "kl", "overlap")]
        np.testing.assert_array_equal(got, depths)
        assert found["centre_of_mass"].depth == pytest.approx(1.0)


def test_the_cosine_is_the_mean_of_the_three() -> None:
    shape = (1, 4)
    low, high = np.array([[-0.9, -0.9, -0.9, 0.0]]), np.array([[0.2, 0.2, 0.5, 0.5]])
    curves = DepthInputs(low, high, high, np.ones(shape), np.zeros(shape), np.ones(1))
    assert effective_depth(curves)["cosine"].depth == 1
    assert effective_depth(replace(curves, cos_attn=high))["cosine"].reason.startswith("no sign change")


@pytest.mark.parametrize("name", ["cosine", "kl", "overlap"])
def test_the_whole_interval_is_what_the_interpolated_one_touches(name: str) -> None:
    for seed in range(30):
        found = effective_depth(inputs(10, noise=0.5, seed=seed), resamples=200)
        whole, real = found[name], found[f"interpolated_{name}"]
        if math.isnan(real.depth):
            continue
        # A cosine depth l holds positions in (l, l+1]; a kl or overlap depth b those in [b−1, b), 0 only 0.
        span = 0 if name == "cosine" else -1
        assert whole.ci_low + span <= real.ci_low <= whole.ci_low + span + 1 or whole.ci_low == real.ci_low == 0
        assert whole.ci_high + span <= real.ci_high <= BLOCKS - 1
        assert 0 <= whole.ci_low <= whole.depth <= whole.ci_high <= BLOCKS - 2
        assert 0 <= real.ci_low <= real.depth <= real.ci_high <= BLOCKS - 1
        assert whole.crossing_share == real.crossing_share


def test_more_noise_gives_wider_intervals_and_the_seed_decides() -> None:
    calm, noisy = (effective_depth(inputs(10, noise), resamples=300) for noise in (0.05, 0.2))
    for name in ESTIMATORS[3:]:
        assert 0 < calm[name].ci_high - calm[name].ci_low < noisy[name].ci_high - noisy[name].ci_low, name
    again = effective_depth(inputs(10, 0.2), resamples=300)
    other = effective_depth(inputs(10, 0.2), resamples=300, seed=1)
    assert again == noisy
    assert other["interpolated_kl"].ci_low != noisy["interpolated_kl"].ci_low
    assert other["interpolated_kl"].depth == noisy["interpolated_kl"].depth


def test_level_and_thresholds_are_followed() -> None:
    curves = inputs(10, 0.1)
    narrow, wide = (effective_depth(curves, level=level)["interpolated_overlap"] for level in (0.5, 0.99))
    assert wide.ci_low < narrow.ci_low < narrow.ci_high < wide.ci_high
    other = effective_depth(inputs(), kl_fraction=0.25, overlap_threshold=0.05)
    assert (other["kl"].depth, other["overlap"].depth) == (6, 2)


def test_crossing_share_is_the_share_of_resamples_that_cross() -> None:
    never, late = np.zeros((1, 4)), np.array([[0.0, 0.0, 1.0, 1.0]])
    overlap = np.concatenate([never, late])
    flat = np.ones((2, 4))
    curves = DepthInputs(flat, flat, flat, flat, overlap, np.array([10.0, 10.0]))
    found = effective_depth(curves, resamples=4000)["overlap"]
    # Two prompts are drawn twice; without the second prompt (chance 1/4) nothing crosses.
    assert found.depth == 2
    assert found.crossing_share == pytest.approx(0.75, abs=0.03)
    rarely = effective_depth(replace(curves, n_tokens=np.array([30.0, 10.0])), resamples=4000)["overlap"]
    assert math.isnan(rarely.depth)
    assert math.isnan(rarely.ci_low)
    assert rarely.crossing_share == pytest.approx(0.25, abs=0.03)
    assert rarely.reason == "overlap never exceeds 0.3 before the last block (highest there: 0.25)"


def test_no_crossing_is_nan_with_the_reason() -> None:
    flat = np.ones((3, 5))
    found = effective_depth(DepthInputs(flat, flat, flat, flat, flat * 0, np.ones(3)), resamples=20)
    for name, estimate in found.items():
        assert np.isnan([estimate.depth, estimate.ratio, estimate.ci_low, estimate.ci_high]).all(), name
        assert estimate.crossing_share == 0 or name == "centre_of_mass"
    assert "nowhere below zero" in found["cosine"].reason
    assert found["interpolated_kl"].reason == found["kl"].reason
    assert found["kl"].reason.startswith("KL never falls below 0.5 of its maximum before the last block")
    assert found["overlap"].reason.startswith("overlap never exceeds 0.3")
    assert found["centre_of_mass"].reason == "future skip effects were not measured"


def test_one_prompt_has_depths_but_no_interval() -> None:
    found = effective_depth(inputs(1))
    for name, depth in DEPTHS.items():
        estimate = found[name]
        assert estimate.depth == pytest.approx(depth), name
        assert np.isnan([estimate.ci_low, estimate.ci_high, estimate.crossing_share]).all()
        assert estimate.reason == "an interval needs at least two prompts with values, and there is one"


def test_prompts_too_short_for_a_skip_position_are_left_out() -> None:
    curves = inputs(6, 0.1)
    assert curves.effect_future is not None
    gaps = curves.effect_future.copy()
    gaps[[1, 4]] = np.nan
    kept = [0, 2, 3, 5]
    only_kept = DepthInputs(**{field.name: getattr(curves, field.name)[kept] for field in fields(curves)})
    with_gaps = effective_depth(replace(curves, effect_future=gaps))
    assert with_gaps["centre_of_mass"] == effective_depth(only_kept)["centre_of_mass"]
    assert with_gaps["kl"] == effective_depth(curves)["kl"]


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
    found = effective_depth(DepthInputs(curve, curve, curve, falling, rising, np.ones(3), effect), resamples=20)
    if n_blocks == 1:
        assert found["cosine"].reason == "the model has a single block, and a depth needs two"
        assert found["overlap"].reason == found["cosine"].reason
        assert found["centre_of_mass"].reason == "the future skip effect is zero at every block"
        assert all(math.isnan(estimate.ci_low) for estimate in found.values())
    else:
        assert (found["cosine"].depth, found["interpolated_cosine"].depth) == (0, 0.5)
        assert found["kl"].reason.startswith("KL never falls")
        assert found["overlap"].depth == 0
        assert found["centre_of_mass"].depth == 0


def test_inputs_that_do_not_fit_are_refused() -> None:
    curves = inputs(3)
    with pytest.raises(OptionError, match=r"kl has the shape \[3, 9\]; with the 3 prompts and 8 blocks"):
        replace(curves, kl=np.ones((3, 9)))
    with pytest.raises(OptionError, match=r"effect_future has the shape \[3, 8\].* it is \[3, 8, 8\]"):
        replace(curves, effect_future=np.ones((3, 8)))
    with pytest.raises(OptionError, match=r"cos_block has the shape \[0, 8\]; .* at least one of each"):
        replace(curves, cos_block=np.ones((0, 8)))
    with pytest.raises(OptionError, match="n_tokens holds a count that is not positive"):
        replace(curves, n_tokens=np.array([3, 0, 2]))


def test_options_out_of_range_are_refused() -> None:
    curves = inputs(3)
    for options, message in (
        ({"resamples": 0}, "resamples is 0"),
        ({"level": 95}, "level is 95"),
        ({"kl_fraction": 0.0}, "kl_fraction is 0"),
        ({"overlap_threshold": 30}, "overlap_threshold is 30"),
    ):
        with pytest.raises(OptionError, match=message):
            effective_depth(curves, **options)
