"""Measures of shared-layer models count execution steps, and are those of a plain decoder with the weights copied out.

Parity with one forward per intervention is tested with all other families (entries ``universal`` and ``moeut``).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from bathyscope_lab.models import UniversalTransformerConfig, UniversalTransformerForCausalLM
from support import waves, zoo
from support.rounding import floor
from support.unshared import unshared
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model, load
from bathyscope.model.anatomy.neurons import output_weights
from bathyscope.prompts.prompt import Prompt

STEPS, GROUP = 6, 2
OPTIONS: dict[str, Any] = {
    "residual": None,
    "lens": None,
    "skip": {"parts": ("block", "attention", "mlp"), "positions": [[3, 8], [5]]},
    "direct": {"positions": [[3, 8], [5]]},
    "drop": None,
    "swap": None,
    "repeat": {"length": 2},
    "erasure": {"future": True},
    "integrated_gradients": {"mode": "exact", "steps": 2},
}


def measured(model: Model) -> dict[str, xr.Dataset]:
    return waves.run(model, zoo.prompts(model.hf, (12, 9)), OPTIONS, answers=[2, 1])


def without_loops(dataset: xr.Dataset) -> xr.Dataset:
    """A dataset without what only a model whose blocks share weights has: its loops."""
    of_loops = [name for name in dataset if name == "fixed_point" or str(name).endswith("_all_loops")]
    return dataset.drop_vars([*of_loops, "looped"], errors="ignore")


@pytest.mark.parametrize("name", ["universal", "moeut"])
def test_steps_with_copies_of_the_weights_give_the_same_measures(name: str) -> None:
    found, wanted = measured(waves.loaded(name)), measured(load(unshared(zoo.build(name))))
    # what is one block here are several there, so that calls differ in size
    bound = floor(zoo.build(name))
    for measure in OPTIONS:
        own = without_loops(found[measure])
        assert own.attrs == wanted[measure].attrs
        xr.testing.assert_allclose(own, wanted[measure], rtol=bound, atol=bound)


def test_a_plain_decoder_with_the_weights_copied_out_gives_the_same_measures() -> None:
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4}
    turned = {"norm": "rms_norm", "norm_eps": 1e-6, "rotary_share": 1.0, "hidden_act": "silu", "gated_mlp": True}
    shared = UniversalTransformerForCausalLM(UniversalTransformerConfig(**shape, **turned, group_size=2, repeats=3))
    with torch.no_grad():
        for value in shared.parameters():
            value.add_(0.15 * torch.randn_like(value))
    plain = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=STEPS, rms_norm_eps=1e-6))
    plain.load_state_dict(shared.state_dict())
    found, wanted = measured(load(shared.eval())), measured(load(plain.eval()))
    for measure in OPTIONS:
        assert set(without_loops(found[measure])) == set(wanted[measure])
        for variable, values in wanted[measure].items():
            other = found[measure][variable]
            assert other.dims == values.dims
            if np.issubdtype(values.dtype, np.floating):
                np.testing.assert_allclose(other, values, rtol=1e-4, atol=1e-4, err_msg=f"{measure}.{variable}")


@pytest.mark.parametrize("name", ["universal", "moeut"])
def test_depth_is_the_execution_step(name: str) -> None:
    found = measured(waves.loaded(name))
    labels = {
        "skip": {"skipped": STEPS, "block": STEPS},
        "direct": {"skipped": STEPS, "block": STEPS},
        "drop": {"dropped": STEPS},
        "swap": {"swapped": STEPS - 1},
        "repeat": {"start": STEPS - 1},
        "lens": {"boundary": STEPS + 1},
        "erasure": {"boundary": STEPS + 1},
        "integrated_gradients": {"block": STEPS},
    }
    for measure, dims in labels.items():
        for dim, size in dims.items():
            assert found[measure][dim].values.tolist() == list(range(size)), measure
    effects = found["skip"].effect_all.sel(part="block", reduction="max").isel(prompt=0)
    for step in range(STEPS - GROUP):
        # steps that run the same block are different interventions
        assert float(abs(found["drop"].kl[0, step] - found["drop"].kl[0, step + GROUP])) > 1e-4
        assert (effects[step + GROUP, : step + GROUP] == 0).all()
        assert effects[step, step] == pytest.approx(1)
        assert effects[step, step + GROUP] > 1e-2


def test_experts_are_the_neurons_of_every_step() -> None:
    model = waves.loaded("moeut")
    config = model.hf.config
    for block, weights in zip(model.anatomy.blocks, output_weights(model.anatomy)):
        (only,) = weights
        assert only.path == "mlp.experts.down_proj"
        assert only.weight is block.mlp.experts.down_proj
        assert only.experts == config.num_experts
        assert only.neurons == config.num_experts * config.moe_intermediate_size


AXES = {
    "boundary": STEPS + 1,
    **dict.fromkeys(("block", "skipped", "dropped", "other"), STEPS),
    **dict.fromkeys(("swapped", "start"), STEPS - 1),
}
"""Dimensions along the depth, and how long they are."""
LEFT_OUT = {"translated_lens", "jacobian_lens", "patching"}
"""The maps that four short prompts are too few for, the lens that nothing is fitted to, and pairs: there is none."""
NOT_EVERYWHERE = {"pairs", "tokens"}
"""Two blocks that are one have no value, and tokens are padded."""


@pytest.mark.parametrize("name", ["universal", pytest.param("moeut", marks=pytest.mark.thorough)])
def test_a_survey_of_all_measures_runs_on_a_folder(name: str, tmp_path: Path) -> None:
    zoo.build(name).save_pretrained(tmp_path / name)
    run = bathyscope.survey(
        bathyscope.load(tmp_path / name, device="cpu"),
        [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(zoo.build(name), (18,) * 4)],
        measures="all",
        progress=False,
        **{measure: declaration.example for measure, declaration in MEASURES.items() if declaration.example},
    )
    assert LEFT_OUT | set(run.measures) == {*MEASURES, "noise"}
    for measure in set(MEASURES) - LEFT_OUT - {"effective_depth"}:
        along = [
            values
            for variable in MEASURES[measure].table
            if variable in run[measure] and set((values := run[measure][variable]).dims) & set(AXES)
        ]
        for values in along:
            for axis in set(values.dims) & set(AXES):
                assert values[axis].values.tolist() == list(range(AXES[axis])), (measure, values.name)
        # what a table begins with is what the measure is about
        if measure not in NOT_EVERYWHERE:
            assert np.isfinite(along[0]).all(), measure
        assert float(along[0].std()) > 0, measure
    depths = run["effective_depth"].sel(estimator=["settle", "prediction", "centre_of_mass"])
    assert ((depths.depth >= 0) & (depths.depth <= STEPS)).all()
    np.testing.assert_allclose(depths.ratio, depths.depth / STEPS)
    # neurons are weights, and those come back with the group
    tails = run["neurons"].kurtosis.values
    np.testing.assert_array_equal(tails[:GROUP], tails[GROUP : 2 * GROUP])


def test_a_list_that_holds_a_module_twice_is_measured_as_one_with_a_copy() -> None:
    model = zoo.entry("llama").build()
    blocks = model.model.layers
    model.model.layers = nn.ModuleList([blocks[0], blocks[1], blocks[0]])
    model.config.num_hidden_layers = 3
    twice = measured(load(model))
    again = copy.deepcopy(blocks[0])
    for path, parameter in blocks[0].named_parameters():
        owner, _, name = path.rpartition(".")
        setattr(again.get_submodule(owner), name, parameter)
    again.self_attn.layer_idx = 2
    model.model.layers[2] = again
    copied = measured(load(model))
    for measure in OPTIONS:
        xr.testing.assert_identical(twice[measure], copied[measure])
