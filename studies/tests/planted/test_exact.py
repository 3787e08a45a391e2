"""Numbers that follow from how a model was built, exactly or to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import xarray as xr

from bathyscope import Run, survey
from studies.planted import CONSTRUCTIONS, surveyed
from studies.planted.idle import chain_among_idle

Runs = Callable[[str], Run]


def skip_map(run: Run, reach: str = "all") -> np.ndarray:
    """Mean over prompts of the largest effect over tokens, [skipped, block]."""
    return run["skip"][f"effect_{reach}"].sel(part="block", reduction="max").mean("prompt").values


def direct_map(run: Run, reach: str = "all") -> np.ndarray:
    return run["direct"][f"effect_{reach}"].sel(reduction="max").mean("prompt").values


def lens(run: Run, variable: str, norm: str = "recompute") -> np.ndarray:
    return run["lens"][variable].sel(norm=norm).mean("prompt").values


def by_block(dataset: xr.Dataset, variable: str) -> np.ndarray:
    return dataset[variable].mean("prompt").values


def test_blocks_that_do_nothing_show_nothing_in_any_measure(run_of: Runs) -> None:
    run = run_of("identity")
    for part in ("attn", "mlp", "block"):
        assert (by_block(run["residual"], f"norm_{part}")[5:] == 0).all()
        assert (by_block(run["residual"], f"cos_{part}")[5:] == 0).all()
    assert (np.triu(skip_map(run), 1)[:, 5:] == 0).all()
    assert (np.triu(skip_map(run), 1)[5:] == 0).all()
    # without a block its own contribution is gone; of one that adds nothing, nothing is
    assert np.diag(skip_map(run)).tolist() == [1] * 5 + [0] * 7
    assert (skip_map(run, "future")[4:] == 0).all()
    assert (direct_map(run)[:, 5:] == 0).all()
    for measure, variable, first in (("drop", "kl", 5), ("swap", "kl", 4)):
        assert np.abs(by_block(run[measure], variable)[first:]).max() < 1e-9
    assert lens(run, "kl_lens_final")[5:].max() < 1e-9
    assert (lens(run, "overlap")[5:] == 1).all()


@pytest.fixture(scope="module")
def short() -> Run:
    """The model of five steps and one idle block that the doubled ones come from."""
    build = partial(chain_among_idle, 6, range(5))
    return surveyed(replace(CONSTRUCTIONS["identity"], name="short", build=build))


@pytest.mark.thorough
def test_doubled_behind_nothing_moves(run_of: Runs, short: Run) -> None:
    doubled = run_of("identity")
    for variable in ("kl_lens_final", "overlap", "entropy"):
        np.testing.assert_allclose(lens(doubled, variable)[:7], lens(short, variable), atol=1e-9)
    np.testing.assert_allclose(skip_map(doubled)[:5, :5], skip_map(short)[:5, :5], atol=1e-5)
    np.testing.assert_allclose(by_block(doubled["drop"], "kl")[:6], by_block(short["drop"], "kl"), atol=1e-5)
    # kl and overlap are silent on the short one, whose answer comes with the last boundary
    for estimator in ("cosine", "settle", "prediction"):
        depths = [float(run["effective_depth"]["depth"].sel(estimator=estimator)) for run in (short, doubled)]
        ratios = [float(run["effective_depth"]["ratio"].sel(estimator=estimator)) for run in (short, doubled)]
        assert depths[0] == depths[1], estimator
        assert ratios[1] == pytest.approx(ratios[0] / 2), estimator


@pytest.mark.thorough
def test_doubled_between_every_boundary_is_there_twice(run_of: Runs, short: Run) -> None:
    doubled = run_of("doubled_between")
    for variable in ("kl_lens_final", "overlap", "entropy"):
        found, wanted = lens(doubled, variable), lens(short, variable)
        np.testing.assert_allclose(found[1::2], wanted[1:], atol=1e-9)
        np.testing.assert_allclose(found[0::2], wanted, atol=1e-9)
    np.testing.assert_allclose(skip_map(doubled)[::2, ::2], skip_map(short), atol=1e-5)
    np.testing.assert_allclose(by_block(doubled["drop"], "kl")[::2], by_block(short["drop"], "kl"), atol=1e-5)
    assert np.abs(by_block(doubled["swap"], "kl")).max() < 1e-9


@pytest.mark.thorough
def test_tiny_blocks_receive_as_much_as_large_ones_and_give_nothing(run_of: Runs) -> None:
    run = run_of("near_identity")
    assert (by_block(run["residual"], "ratio_block")[5:] < 2e-3).all()
    effect = skip_map(run)
    assert (effect[:5, 5:] > 1).all()
    assert (np.triu(effect, 1)[5:] < 0.01).all()
    assert by_block(run["drop"], "kl")[5:].max() < 1e-5


@pytest.mark.thorough
def test_stretching_keeps_the_direction_and_moves_the_frozen_lens_alone(run_of: Runs) -> None:
    run = run_of("rescaling")
    np.testing.assert_allclose(by_block(run["residual"], "cos_block")[5:], 1, atol=1e-6)
    np.testing.assert_allclose(by_block(run["residual"], "cos_neighbour")[5:], 1, atol=1e-6)
    np.testing.assert_allclose(by_block(run["residual"], "norm_resid")[5:], 2**0.5 * 1.5 ** np.arange(8), rtol=1e-4)
    assert lens(run, "kl_lens_final")[5:].max() < 1e-6
    frozen = lens(run, "kl_lens_final", "frozen")
    assert frozen[5] > 0.9 * frozen[:5].max()
    assert (np.diff(frozen[5:]) < 0).all()
    # dropped, a block leaves the stream shorter, and no direction changed
    assert by_block(run["drop"], "kl")[5:].max() < 1e-6
    np.testing.assert_allclose(lens(run, "overlap"), lens(run, "overlap", "frozen"))


@pytest.mark.thorough
def test_what_nobody_reads_has_no_skip_effect_on_what_is_read(run_of: Runs) -> None:
    run = run_of("unread")
    assert (skip_map(run)[:5, 5:] < 1e-4).all()
    # what is left of an effect goes through the norm of the stream
    assert np.triu(skip_map(run), 1)[5:].max() < 0.1
    assert (by_block(run["residual"], "ratio_block")[5:] > 0.14).all()
    assert by_block(run["drop"], "kl")[5:].max() < 1e-3


@pytest.mark.thorough
def test_a_second_chain_is_all_effect_on_blocks_and_none_on_the_output(run_of: Runs) -> None:
    run = run_of("busy")
    effect = skip_map(run)
    assert (effect[:5, 5:] < 1e-4).all()
    assert (effect[5:10, 5:10][np.triu_indices(5, 1)] > 1).all()
    output = run["skip"]["output_all"].sel(part="block", reduction="max").mean("prompt").values
    assert (output[:5] > 0.5).all()
    assert (output[5:] < 1e-5).all()


def test_a_relay_shows_its_one_use_and_nothing_else(run_of: Runs) -> None:
    run = run_of("relay")
    for found in (skip_map(run), skip_map(run, "future"), direct_map(run), direct_map(run, "future")):
        above = np.triu(found, 1)
        assert np.argwhere(above > 0).tolist() == [[2, 6]]
        assert above[2, 6] > 0.5
    # nothing stands between the two, so that the direct effect is the whole one
    np.testing.assert_allclose(direct_map(run)[2, 6], skip_map(run)[2, 6], rtol=1e-5)
    output = run["skip"]["output_future"].sel(part="block", reduction="max").mean("prompt").values
    assert output[2] > 0.5
    assert np.delete(output, 2).max() < 1e-9


def test_blocks_with_the_same_weights_can_be_dropped_alike_and_swapped_for_nothing(run_of: Runs) -> None:
    run = run_of("shared_weights")
    # of rows in calls of other sizes rounding is left, and nothing else
    assert run["swap"]["kl"].max() < 1e-9
    dropped = run["drop"]["kl"]
    # whichever is dropped, eleven steps are left
    np.testing.assert_allclose(dropped, dropped.isel(dropped=[0] * 12), atol=1e-9)
    assert dropped.max() < 1e-6


def test_an_early_answer_is_late_in_the_lens_and_early_in_the_skip_effects(run_of: Runs) -> None:
    run = run_of("rotated")
    kl = lens(run, "kl_lens_final")
    assert kl[:10].min() > 1
    assert kl[10:].max() < 1e-9
    effect = np.triu(skip_map(run), 1)
    assert (effect[:4, 4:9] == 0).all()
    assert (effect[:4, 9] > 0.5).all()
    assert (effect[4:] == 0).all()


@pytest.mark.thorough
def test_a_backup_hides_the_block_that_it_stands_in_for(run_of: Runs) -> None:
    run = run_of("backup")
    kl = by_block(run["drop"], "kl")
    assert kl[:3].min() > 1
    assert kl[3:].max() < 1e-9
    assert lens(run, "kl_lens_final")[4] > 1
    assert lens(run, "kl_lens_final")[5:].max() < 1e-9
    # relative to a contribution of zero
    assert np.isnan(skip_map(run)[4, 8])
    assert (by_block(run["residual"], "norm_block")[8:] == 0).all()


@pytest.mark.thorough
def test_the_direct_effect_shows_the_block_that_a_backup_hides() -> None:
    """Block 4 writes the answer, block 8 would where it is missing; block 8 is idle in both ways."""
    built = CONSTRUCTIONS["backup"].build()
    prompts = surveyed(CONSTRUCTIONS["backup"]).prompts
    drop = survey(built, [prompt.ids for prompt in prompts], ["drop"], drop={"direct": True}, progress=False)["drop"]
    assert by_block(drop, "kl")[[4, 8]].max() < 1e-9
    assert by_block(drop, "kl_direct")[4] > 1
    assert by_block(drop, "kl_direct")[8] < 1e-9
    assert by_block(drop, "self_repair")[4] == pytest.approx(
        by_block(drop, "loss_direct")[4] - by_block(drop, "loss")[4]
    )


@pytest.mark.thorough
def test_one_token_makes_the_mean_norm(run_of: Runs) -> None:
    residual = run_of("sink")["residual"]
    assert by_block(residual, "norm_resid_max")[2:11] == pytest.approx(300, rel=1e-4)
    assert (residual["largest_token"].isel(boundary=slice(2, 11)) == 0).all()
    # one of 24 tokens
    assert by_block(residual, "norm_resid")[2:11] == pytest.approx((300 + 23 * 2**0.5) / 24, rel=1e-3)
    assert by_block(residual, "norm_resid_rest") == pytest.approx(2**0.5, rel=1e-4)
    assert by_block(residual, "norm_resid_max")[11:] == pytest.approx(2**0.5, rel=1e-2)


@pytest.mark.thorough
def test_a_detour_passes_by_the_answer(run_of: Runs) -> None:
    kl = lens(run_of("detour"), "kl_lens_final")
    assert kl[[0, 1, 3, 4]].min() > 1
    assert kl[[2, 5]].max() < 1e-9
