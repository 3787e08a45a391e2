"""Stages of a run: which signatures go in, and regimes that a model was built of."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import synthetic_stages, waves, zoo
from support.zoo.entry import GROUPED, Entry, config

from bathyscope.errors import OptionError
from bathyscope.measures.stages import SIGNATURES, STAGES, Stages, StagesOptions
from bathyscope.model import Model, load
from bathyscope.prompts.prompt import TokenizedPrompt

OBSERVED = ("residual", "lens", "drop", "attention_locality")
Regime = tuple[float, float, float]
"""Factors on the weights of attention's output, of its queries, and of the MLP's output."""


def derived(merged: dict[str, xr.Dataset], n_blocks: int, **options: Any) -> xr.Dataset:
    chosen = StagesOptions(**{"resamples": 60, **options})
    return Stages(chosen).derive(
        SimpleNamespace(n_blocks=n_blocks, anatomy=SimpleNamespace(cycle=None)), merged, seed=3
    )  # type: ignore[arg-type]


@cache
def observed(name: str, norms: tuple[str, ...] = ("recompute",)) -> dict[str, xr.Dataset]:
    model = waves.loaded(name)
    ids = zoo.prompts(zoo.build(name), (14, 9, 17, 3))
    found = waves.run(model, ids, {"residual": None, "lens": {"norm": norms}, "drop": None, "attention_locality": None})
    census = waves.measures({"neurons": None})["neurons"]
    census.prepare(waves.facts(model), waves.of_lengths(9), 0)
    return {**found, "neurons": census.derive(waves.facts(model), {}, 0)}


def of_regimes(*regimes: Regime, blocks: int = 8, seed: int = 0) -> Model:
    """A Llama with ``blocks`` equal blocks for each regime; those of different ones differ in weights and scale."""
    model = Entry("regimes", "llama", config("llama", GROUPED, num_hidden_layers=blocks * len(regimes))).build(
        seed=seed
    )
    layers = model.model.layers
    with torch.no_grad():
        for number, (attention, queries, mlp) in enumerate(regimes):
            first = layers[number * blocks]
            first.self_attn.o_proj.weight.mul_(attention)
            first.self_attn.q_proj.weight.mul_(queries)
            first.mlp.down_proj.weight.mul_(mlp)
            for layer in layers[number * blocks + 1 : (number + 1) * blocks]:
                layer.load_state_dict(first.state_dict())
    return load(model)


def test_prompts_of_a_cluster_are_resampled_and_held_out_as_one() -> None:
    once = synthetic_stages.planted((3, 7), 10, prompts=6, noise=0.6)
    numbers = np.repeat(np.arange(6), 3)
    copies = {name: one.isel(prompt=numbers) if "prompt" in one.sizes else one for name, one in once.items()}
    labelled = {
        name: one.assign_coords(book=("prompt", [f"b{n}" for n in numbers])) if "prompt" in one.sizes else one
        for name, one in copies.items()
    }
    alone, together, apart = derived(once, 10), derived(labelled, 10, cluster="book"), derived(copies, 10)
    for name in ("signature_low", "signature_high", "ci_low", "ci_high", "resample_share", "heldout_stderr", "best_k"):
        np.testing.assert_allclose(together[name], alone[name], rtol=1e-9, err_msg=name)
    assert together.attrs["cluster"] == "book"
    widths = [float((one.signature_high - one.signature_low).mean()) for one in (together, apart)]
    assert widths[1] < 0.7 * widths[0]
    given = [TokenizedPrompt(str(n), (1, 2), None, {"book": book}) for n, book in enumerate("abbc")]
    with pytest.raises(OptionError, match=r"no label 'boo'. Did you mean 'book'\?"):
        Stages(StagesOptions(cluster="boo")).prepare(SimpleNamespace(n_blocks=10), given, seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "regimes",
    [((1, 1, 1), (0.1, 8, 0.1), (1, 1, 3)), ((2, 1, 0.3), (0.3, 5, 0.3), (2, 1, 3))],
    ids=["both", "mostly-mlp"],
)
def test_the_regimes_that_a_model_is_built_of_are_its_stages(regimes: tuple[Regime, ...]) -> None:
    model = of_regimes(*regimes)
    found = waves.run(model, zoo.prompts(model.hf, (24,) * 6), dict.fromkeys(OBSERVED))
    stages = derived(found, 24, stages=3)
    assert np.abs(stages.boundary.values - [8, 16]).max() <= 1
    assert (stages.ci_low <= [8, 16]).all()
    assert (stages.ci_high >= [8, 16]).all()


def test_planted_stages_and_their_number() -> None:
    planted = synthetic_stages.planted((4, 10, 19), 24, prompts=8, noise=0.2)
    found = derived(planted, 24)
    np.testing.assert_array_equal(found.boundary, [4, 10, 19])
    np.testing.assert_allclose(found.relative_depth, [4 / 24, 10 / 24, 19 / 24])
    assert found.best_k == 4
    # planted steps leave next to nothing, a straight line 6 %
    assert abs(found.unexplained.sel(k=4)) < 0.02 < 0.06 < found.unexplained_ramp.sel(k=4)
    assert tuple(found.stage_name.values) == STAGES[1:]
    assert found.attrs["n_prompts"] == 8


@pytest.mark.parametrize("name", ["llama", "gemma3", "universal", "moeut", "gpt2_sink"])
def test_signatures_are_those_of_the_other_measures(name: str) -> None:
    merged = observed(name)
    found = derived(merged, merged["drop"].sizes["dropped"])
    lens, blocks = merged["lens"].isel(boundary=slice(1, None)), merged["neurons"]
    expected = {
        "drop_kl": merged["drop"].kl.mean("prompt"),
        "attention_prev5": merged["attention_locality"].total_prev5.mean("prompt"),
        "prediction_neurons": blocks.prediction_fraction,
        "suppression_neurons": blocks.suppression_fraction,
        "lens_entropy": lens.entropy.mean("prompt"),
        "lens_kl": lens.kl_lens_final.mean("prompt"),
        "mlp_norm": merged["residual"].norm_mlp_rest.mean("prompt"),
    }
    assert list(expected) == list(SIGNATURES) == found["curve"].values.tolist()
    for curve, values in expected.items():
        np.testing.assert_allclose(found.signature.sel(curve=curve), values.values, err_msg=curve)
        assert (found.signature_low <= found.signature).sel(curve=curve).all() or curve.endswith("neurons")
    units = dict(zip(found["curve"].values, found["curve_units"].values))
    assert (units["drop_kl"], units["lens_entropy"], units["mlp_norm"]) == ("nats", "bits", "1")


def test_what_spans_decades_is_cut_by_its_logarithm() -> None:
    merged = observed("llama")
    found = derived(merged, 5)
    logarithm = np.log(merged["drop"].kl).mean("prompt").values
    np.testing.assert_allclose(
        found.standardised.sel(curve="drop_kl"), (logarithm - logarithm.mean()) / logarithm.std(), rtol=1e-6
    )
    entropy = merged["lens"].entropy.isel(boundary=slice(1, None)).mean("prompt").values
    np.testing.assert_allclose(
        found.standardised.sel(curve="lens_entropy"), (entropy - entropy.mean()) / entropy.std(), rtol=1e-6
    )


def test_the_recomputed_norm_is_used_where_there_are_two() -> None:
    one, two = (derived(observed("llama", norms), 5) for norms in (("recompute",), ("frozen", "recompute")))
    xr.testing.assert_allclose(one, two)


def test_what_cannot_be_used_is_left_out_with_the_reason() -> None:
    planted = synthetic_stages.planted((4, 8), 12, prompts=5, noise=0.2)
    del planted["attention_locality"]
    planted["neurons"]["prediction_fraction"][:] = 0.0
    planted["residual"]["norm_mlp_rest"][:] = np.nan
    planted["drop"] = planted["drop"].isel(dropped=[0, 3, 4])
    found = derived(planted, 12, stages=3)
    reasons = {str(name): str(found.left_out.sel(curve=name).values) for name in found["curve"].values}
    assert reasons == {
        "drop_kl": "kl of drop has no value at 9 of 12 blocks",
        "attention_prev5": "attention_locality was not measured",
        "prediction_neurons": "prediction_fraction of neurons is 0 at every block",
        "suppression_neurons": "",
        "lens_entropy": "",
        "lens_kl": "",
        "mlp_norm": "norm_mlp_rest of residual has no value at 12 of 12 blocks",
    }
    assert found.standardised.notnull().any("block").values.tolist() == [reason == "" for reason in reasons.values()]
    np.testing.assert_array_equal(found.boundary, [4, 8])


def test_prompts_that_lack_a_signature_are_not_cut() -> None:
    planted = synthetic_stages.planted((4, 8), 12, prompts=5, noise=0.2)
    planted["attention_locality"]["total_prev5"][0] = np.nan
    found = derived(planted, 12, stages=3)
    assert found.attrs["n_prompts"] == 4
    without = {name: one.isel(prompt=slice(1, None)) if "prompt" in one.dims else one for name, one in planted.items()}
    np.testing.assert_allclose(found.standardised, derived(without, 12, stages=3).standardised)


def test_a_block_that_does_nothing_has_the_smallest_kl_that_counts() -> None:
    planted = synthetic_stages.planted((4, 8), 12, prompts=5, noise=0.2)
    planted["drop"]["kl"][:, 5] = 0.0
    assert np.isfinite(derived(planted, 12).standardised).all()


def test_a_model_of_five_blocks_is_too_shallow_for_four_stages() -> None:
    found = derived(observed("llama"), 5)
    assert found.boundary.isnull().all()
    assert str(found.boundary_reason.values) == "4 stages of at least 2 blocks need 8 blocks, and the model has 5"
    assert found.heldout_error.notnull().values.tolist() == [True, True, False, False, False]
    assert derived(observed("llama"), 5, stages=2).boundary.notnull().all()


def test_equal_seeds_give_equal_results() -> None:
    planted = synthetic_stages.planted((4, 8), 12, prompts=5, noise=1.0)
    xr.testing.assert_identical(derived(planted, 12), derived(planted, 12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": 1}, "stages: stages=1 is out of range; allowed: 2 to 50"),
        ({"most": 1}, "stages: most=1 is out of range"),
        ({"shortest": 0}, "stages: shortest=0 is out of range"),
        ({"folds": 1}, "stages: folds=1 is out of range"),
        ({"resamples": 0}, "stages: resamples=0 is out of range"),
        ({"level": 1.0}, "stages: level=1.0 is out of range"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Stages(options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"stages": 50},
            "stages: stages=50, shortest=2 need 100 blocks, and the model has 12; allowed: stages up to 6.",
        ),
        (
            {"shortest": 1000},
            "stages: stages=4, shortest=1000 need 4000 blocks, and the model has 12; allowed: shortest up to 3.",
        ),
        (
            {"shortest": 4},
            "stages: stages=4, shortest=4 need 16 blocks, and the model has 12; allowed: stages up to 3 or shortest up "
            "to 3.",
        ),
        ({"stages": 50, "shortest": 20}, "the model has 12; allowed: at most 12 stages of 1 block."),
        ({"most": 7}, "stages: most=7, shortest=2 need 14 blocks, and the model has 12; allowed: most up to 6"),
    ],
)
def test_stages_that_do_not_fit_are_refused_before_compute(options: dict[str, Any], message: str) -> None:
    facts, prompts = SimpleNamespace(n_blocks=12), waves.of_lengths(9)
    with pytest.raises(OptionError) as caught:
        Stages(options).prepare(facts, prompts, seed=0)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("n_blocks", "options"), [(12, {"stages": 6}), (12, {"shortest": 3}), (12, {"most": 6}), (5, {}), (9, {"folds": 3})]
)
def test_stages_that_fit_and_the_usual_ones_are_taken(n_blocks: int, options: dict[str, Any]) -> None:
    facts, prompts = SimpleNamespace(n_blocks=n_blocks), waves.of_lengths(9)
    measure = Stages(options)
    measure.prepare(facts, prompts, seed=0)  # type: ignore[arg-type]
    assert measure.options == StagesOptions(**options)
