"""Swap cosines: against hooks on the real model's blocks in the swapped order; exact properties; errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, naive_swap, waves, zoo
from support.altered import answering
from torch import Tensor, nn

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.of.swap_cosine import SwapCosine, SwapCosineOptions

BRUTE_FORCE_OF_PARTS = ("test_parity_with_hooks_on_the_real_model",)
"""What test_looped_parity.py asks of looped models too."""

LENGTHS = (14, 9)
PARALLEL = ["gpt_neox", "gptj", "phi", "falcon", "cohere2"]
POST_NORM = ["olmo2", "gemma2", "glm4", "afmoe", "exaone4"]
SCALED = ["granite", "granitemoe", "hyperclovax", "minicpm3", "bloom", "mpt"]
WINDOWS = ["gpt_neo", "ministral", "gemma3", "gpt_oss", "qwen2_windows"]
PASSED_ON = ["gemma4", "gemma4_experts"]
MIXERS = ["jamba", "qwen3_next", "lfm2", "falcon_h1", "recurrent_gemma"]
OTHERS = [
    "llama",
    "gpt2",
    "gpt2_sink",
    "opt",
    "llama4",
    "deepseek_v3",
    "mixtral",
    "llama_dynamic",
    "falcon_alibi",
    "gpt_neox_serial",
    "universal",
    "moeut",
]
FAMILIES = [*PARALLEL, *POST_NORM, *SCALED, *WINDOWS, *PASSED_ON, *MIXERS, *OTHERS]
NAMES = ("self", "index", "adjacent")
ALONE: Mapping[str, Any] = {"swap_cosine": None}


def measured(name: str, options: Mapping[str, Any] = ALONE, **how: Any) -> xr.Dataset:
    model = waves.loaded(name)
    ids = zoo.prompts(model.hf, LENGTHS)
    batches = [[one] for one in ids] if model.anatomy.equal_lengths else [ids]
    return xr.concat([waves.run(model, own, options, **how)["swap_cosine"] for own in batches], dim="prompt")


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER))
def test_parity_with_hooks_on_the_real_model(name: str) -> None:
    model = zoo.build(name)
    got = measured(name)
    assert got["swapped"].values.tolist() == list(range(len(naive.blocks_of(model)) - 1))
    assert got["part"].values.tolist() == ["attention", "mlp"]
    for prompt, ids in enumerate(zoo.prompts(model, LENGTHS)):
        if "dynamic" in name:
            # the tables stay as long as the longest forward made them; a short one puts them back
            naive.logits(model, ids[:4])
        expected = naive_swap.cosines(model, ids)
        for variable in NAMES:
            np.testing.assert_allclose(got[variable][prompt], expected[variable], atol=2e-5, err_msg=variable)


@pytest.mark.parametrize("call_tokens", [None, 30])
@pytest.mark.parametrize(
    "others",
    [
        {"swap": None},
        {"drop": None, "repeat": {"length": 2}},
        {"drop": {"protect_first": 1}, "swap": None, "skip": {"parts": ["block", "mlp"]}},
    ],
)
def test_rows_shared_with_other_measures_give_the_same(others: Mapping[str, Any], call_tokens: int | None) -> None:
    """``drop:3`` and ``swap:3`` begin with the same call, which may then belong to either."""
    alone, beside = measured("llama"), measured("llama", {**others, **ALONE}, call_tokens=call_tokens)
    for variable in NAMES:
        np.testing.assert_allclose(beside[variable], alone[variable], atol=1e-6)


@pytest.mark.parametrize("protect", [0, 3])
def test_protected_tokens_keep_the_real_stream_and_enter_no_mean(protect: int) -> None:
    """Against a model whose list of blocks was edited and whose stream is put right between the two blocks."""
    real, edited = zoo.build("llama"), zoo.entry("llama").build()
    edited.model.layers = nn.ModuleList(edited.model.layers[i] for i in naive.swap_order(5, 2))
    got = measured("llama", {"swap_cosine": {"protect_first": protect, "blocks": [2]}}).sel(swapped=2)
    for prompt, ids in enumerate(zoo.prompts(real, LENGTHS)):
        stream = naive.boundaries(real, naive.blocks_of(real), ids)

        def put_right(module: nn.Module, args: Any, output: Tensor, stream: Tensor = stream) -> Tensor:
            return torch.cat([stream[3, :protect][None], output[:, protect:]], dim=1)

        handle = edited.model.layers[2].register_forward_hook(put_right)
        normal = naive.contributions(real, naive.blocks_of(real), ids)
        swapped = naive.contributions(edited, naive.blocks_of(edited), ids)
        handle.remove()
        for part in naive_swap.PARTS:
            pairs = {
                "self": (normal[part][2], swapped[part][3]),
                "index": (normal[part][2], swapped[part][2]),
                "adjacent": (normal[part][2], normal[part][3]),
            }
            for variable, (one, other) in pairs.items():
                cosines = naive_swap.cosine(one, other)[protect:]
                expected = float(cosines.mean())
                assert float(got[variable].sel(part=part)[prompt]) == pytest.approx(expected, abs=1e-6)
                assert got.n_averaged[prompt] == cosines.numel()


def test_a_block_beside_its_copy() -> None:
    """The other block writes the same in the same place, and swapping changes nothing at all."""
    hf = zoo.entry("llama").build()
    hf.model.layers[2].load_state_dict(hf.model.layers[1].state_dict())
    got = waves.run(waves.load(hf), zoo.prompts(hf, LENGTHS), ALONE)["swap_cosine"].sel(swapped=1)
    np.testing.assert_allclose(got["index"], 1, atol=1e-6)
    np.testing.assert_allclose(got["self"], got["adjacent"], atol=1e-6)
    assert float(abs(got["self"]).max()) < 0.999


def test_a_neighbour_that_adds_nothing() -> None:
    """The block then meets the stream it is used to; the neighbour's own contribution has no direction."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.model.layers[3].self_attn.o_proj.weight.zero_()
        hf.model.layers[3].mlp.down_proj.weight.zero_()
    got = waves.run(waves.load(hf), zoo.prompts(hf, LENGTHS), ALONE)["swap_cosine"].sel(swapped=2)
    np.testing.assert_allclose(got["self"], 1, atol=1e-6)
    assert (got["index"] == 0).all()
    assert (got["adjacent"] == 0).all()


def test_only_the_asked_blocks() -> None:
    every = measured("gpt2")
    some = measured("gpt2", {"swap_cosine": {"blocks": [3, 0]}})
    assert some["swapped"].values.tolist() == [3, 0]
    for variable in NAMES:
        np.testing.assert_allclose(some[variable], every[variable].sel(swapped=[3, 0]), atol=1e-6)


def test_noise_is_what_the_control_row_deviates_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that answers by the number of rows it is given: a caricature of low-precision kernels."""
    monkeypatch.setattr("bathyscope.model.anatomy.checks.require_own_rows", lambda *_: None)
    hf = zoo.entry("llama").build()
    model = waves.load(hf)
    ids = zoo.prompts(hf, (12, 12))
    run = bathyscope.survey(model, ids, ["swap_cosine"], progress=False)
    assert float(run["noise"].floor.sel(measure="swap_cosine")) < 1e-12
    with answering(hf.model.layers[2].mlp, lambda _args, out: out + 0.1 * out.shape[0]):
        noisy = bathyscope.survey(model, ids, ["swap_cosine"], progress=False)
    assert 1e-3 < float(noisy["noise"].floor.sel(measure="swap_cosine")) < 1


def test_a_run_as_a_table_and_from_all_measures() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    run = bathyscope.survey(waves.loaded("llama"), ids, ["swap_cosine"], progress=False)
    assert set(NAMES) <= set(run.to_dataframe("swap_cosine").columns)


def test_models_without_separable_parts() -> None:
    model = waves.loaded("opt_post_norm")
    with pytest.raises(ModelError, match="swap_cosine needs attention and MLP contributions"):
        SwapCosine(SwapCosineOptions()).prepare(waves.facts(model), waves.of_lengths(9), seed=0)
    lacks = SwapCosine(SwapCosineOptions()).unavailable(waves.facts(model), waves.of_lengths(9))
    assert lacks == "this model has no separable contributions of attention and MLP"
    assert SwapCosine(SwapCosineOptions()).unavailable(waves.facts(waves.loaded("llama")), []) is None


def test_a_block_may_not_run_before_the_one_it_takes_keys_and_values_from() -> None:
    known = waves.facts(waves.loaded("gemma4"))
    neighbours = dataclasses.replace(
        known.checks, sources=(frozenset(), frozenset(), frozenset({1}), *[frozenset()] * 2)
    )
    facts = ModelFacts(known.anatomy, neighbours)
    with pytest.raises(ModelError, match=r"swap_cosine:1 cannot run: .* Leave 1 out of swap_cosine's blocks"):
        SwapCosine(SwapCosineOptions(blocks=(0, 1))).prepare(facts, waves.of_lengths(9), seed=0)
    with pytest.warns(UserWarning, match="Left out of swap_cosine: 1"):
        SwapCosine(SwapCosineOptions()).prepare(facts, waves.of_lengths(9), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": (4,)}, "swap_cosine: block 4 is out of range; allowed: 0 to 3."),
        ({"blocks": ()}, "swap_cosine: blocks=[] is not allowed; give at least one, each once."),
        ({"protect_first": 9}, "swap_cosine: protect_first=9 is out of range; allowed: 0 to 8."),
    ],
)
def test_errors(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        SwapCosine(SwapCosineOptions(**options)).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(9, 14), 0)
    assert str(caught.value) == message
