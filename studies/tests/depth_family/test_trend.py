"""The trend of the ratio over the number of blocks, on made-up depths whose slope is known."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support.compared import a_run

from bathyscope import Run
from bathyscope.errors import OptionError
from studies.depth_family.trend import depth_trend, score_readings

BLOCKS = (12, 24, 48)
REAL = ["interpolated_cosine", "interpolated_kl", "interpolated_overlap", "settle", "prediction", "centre_of_mass"]
"""Estimators that are no whole numbers."""


def family(slope: float, seeds: int = 1, between: float = 0.0, **changes: float) -> list[Run]:
    """Models whose curves cross ``slope`` later, as a share of depth, for each doubling, and ``between`` for a seed."""
    return [
        a_run(
            model=f"own/{blocks}-{seed}", blocks=blocks, prompts=12, shift=slope * n + between * (seed - 0.5), **changes
        )
        for n, blocks in enumerate(BLOCKS)
        for seed in range(seeds)
    ]


def test_a_planted_slope_is_found_and_no_slope_is_stable() -> None:
    rising, level = (depth_trend(family(slope), resamples=300) for slope in (0.06, 0.0))
    # these made-up curves are functions of the ratio itself
    names = [name for name in REAL if name.split("_")[0] == "interpolated"]
    np.testing.assert_allclose(rising["slope"].sel(estimator=names), 0.06, atol=0.012)
    np.testing.assert_allclose(level["slope"].sel(estimator=names), 0.0, atol=0.012)
    assert not rising["stable"].sel(estimator=names).any()
    assert bool((rising["p_holm"].sel(estimator=names) < 0.05).all())
    assert bool(level["stable"].sel(estimator=["kl", "overlap"]).all())
    np.testing.assert_allclose(rising["slope"].sel(estimator="settle"), 0.06, rtol=1e-6)
    assert bool((level["prompt_low"] <= level["slope"]).all())
    change = np.maximum(abs(rising["prompt_low"]), abs(rising["prompt_high"])) * 2
    np.testing.assert_allclose(rising["largest_change"], change)


def test_prompts_are_paired() -> None:
    """What a prompt does to all models alike does not widen the slope's interval."""

    def width(spread: float) -> float:
        trend = depth_trend(family(0.02, spread=spread, uneven=0.05), resamples=300).sel(estimator="settle")
        return float(trend["prompt_high"] - trend["prompt_low"])

    assert width(0.05) == pytest.approx(width(0.0), rel=1e-6)
    assert width(0.0) > 0


@pytest.mark.thorough
def test_one_curve_over_relative_depth_has_the_proportional_slope() -> None:
    """Models that do the same at the same relative depth; averaged over where in a block, since whole numbers round."""
    places = 0.5 + (np.arange(8) + 0.5) / 8 / BLOCKS[0]
    found = [depth_trend([sampled(blocks, place) for blocks in BLOCKS], resamples=20) for place in places]
    gap = xr.concat([one["slope"] - one["slope_proportional"] for one in found], "place").mean("place")
    exact = ["interpolated_cosine", "interpolated_kl", "interpolated_overlap", "cosine", "kl", "overlap", "settle"]
    np.testing.assert_allclose(gap.sel(estimator=exact), 0, atol=2e-3)
    np.testing.assert_allclose(gap.sel(estimator="centre_of_mass"), 0, atol=2e-3)
    # without it, such models would be taken for ones that use less of their depth
    slopes = xr.concat([one["slope"] for one in found], "place").mean("place")
    assert float(slopes.sel(estimator="kl")) < -0.01


def sampled(blocks: int, place: float) -> Run:
    """A run whose curves are straight lines over relative depth, crossing their thresholds at ``place``."""
    run = a_run(model=f"own/{blocks}", blocks=blocks, prompts=3)
    block, boundary = (np.arange(blocks) + 0.5) / blocks, np.arange(blocks + 1) / blocks
    kl, overlap = (1 - boundary / (2 * place)).clip(0), 0.3 + boundary - place
    settled = np.full(3, np.ceil(place * blocks))
    counted = np.triu(np.ones((blocks, blocks)), k=1)
    effect = counted * np.exp(-(np.arange(blocks) + 0.5) / (blocks - 1) / place)[:, None]
    each = partial(np.multiply.outer, np.ones(3))
    put(run, "residual", **{f"cos_{part}": each(block - place) for part in ("attn", "mlp", "block")})
    put(run, "lens", kl_lens_final=each(kl), overlap=each(overlap), settle_depth=settled, prediction_depth=settled)
    put(run, "skip", effect_future=each(effect)[:, None, None])
    return run


def put(run: Run, measure: str, **values: np.ndarray) -> None:
    """Other values for some variables of a measure."""
    own = run[measure]
    run.tree[measure] = xr.DataTree(own.assign({name: own[name].copy(data=new) for name, new in values.items()}))


def test_idle_blocks_make_the_ratio_fall() -> None:
    """Blocks behind all others that change nothing: depths stay, and each doubling halves the ratio."""
    short = a_run(model="own/short", blocks=12, prompts=8)
    trend = depth_trend([short, with_idle(short, 12), with_idle(short, 36)], resamples=200)
    depths = np.array([short["lens"]["settle_depth"].mean().item()])
    ratios = [depths[0] / blocks for blocks in (12, 24, 48)]
    settle = trend.sel(estimator="settle")
    assert float(settle["slope"]) == pytest.approx((ratios[2] - ratios[0]) / 2)
    names = ["kl", "overlap", "interpolated_kl", "interpolated_overlap", "settle", "prediction"]
    assert bool((trend["prompt_high"].sel(estimator=names) < trend["slope_proportional"].sel(estimator=names)).all())
    assert not trend["stable"].sel(estimator=names).any()
    assert not trend["proportional"].sel(estimator=names).any()


def with_idle(run: Run, count: int) -> Run:
    """The run of the same model with idle blocks behind all others."""
    blocks = run["residual"].sizes["block"] + count
    made = a_run(model=f"own/idle-{count}", blocks=blocks, prompts=8)
    for name, last in (("kl_lens_final", 0.0), ("overlap", 1.0)):
        values = run["lens"][name].values
        final = np.full((len(values), count + 1), last)
        put(made, "lens", **{name: np.concatenate([values[:, :-1], final], axis=1)})
    put(made, "lens", **{name: run["lens"][name].values for name in ("settle_depth", "prediction_depth")})
    return made


def test_seeds_widen_the_interval() -> None:
    one = depth_trend(family(0.02, uneven=0.05), resamples=200)
    # prompts that all agree would leave open what others are
    two = depth_trend(family(0.02, 2, between=0.1, uneven=1e-8), resamples=200)
    assert bool(one["model_low"].isnull().all())
    assert not one["stable"].sel(estimator="settle")
    settle = two.sel(estimator="settle")
    # ratios of two seeds lie 0.1 apart: a standard deviation of 0.1/√2 with three degrees of freedom
    assert float(settle["seed_spread"]) == pytest.approx(0.1 / np.sqrt(2), rel=1e-6)
    reach = stats.t.ppf(0.975, 3) * 0.1 / np.sqrt(2) * np.sqrt(1 / 4)
    assert float(settle["model_high"] - settle["slope"]) == pytest.approx(reach, rel=1e-3)
    assert float(settle["slope"]) == pytest.approx(0.02)
    assert bool(settle["stable"])


def scored(blocks: int, layer: np.ndarray) -> Run:
    """A run with depth scores of the given effects of blocks, the same for each prompt but for its size."""
    run = a_run(model=f"own/{blocks}", blocks=blocks)
    effect = np.arange(1, 7)[:, None, None] * layer[None, None]
    data = {f"{kind}_effect": (("prompt", "reduction", "skipped"), effect) for kind in ("layer", "output")}
    run.tree["depth_score"] = xr.DataTree(xr.Dataset(data, {"reduction": ["max"]}))
    return run


def test_depth_scores_have_a_trend_too() -> None:
    runs = [scored(blocks, np.eye(blocks)[3]) for blocks in (8, 16)]
    trend = depth_trend(runs, resamples=50)
    assert list(trend.estimator.values[-2:]) == ["depth_score_layer", "depth_score_output"]
    # the middle of block 3, counted from 0: 3.5/8 and 3.5/16
    np.testing.assert_allclose(trend["slope"][-2:], -3.5 / 16)
    np.testing.assert_allclose(float(score_readings(runs[1])["depth_score_layer"].estimate()), 3.5 / 16)
    assert "depth_score_layer" not in depth_trend([runs[0], a_run(model="own/plain", blocks=16)]).estimator


def test_one_depth_has_no_trend() -> None:
    with pytest.raises(OptionError, match="A slope needs at least two different sizes; given: 3, 3"):
        depth_trend([a_run(blocks=8), a_run(model="own/other", blocks=8)])
