"""Gradient by depth: parity with backward passes of the real model, and identities of its two parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from support import naive_gradients, waves, zoo
from support.rounding import bound_of_differences

from bathyscope.errors import ModelError
from bathyscope.measures.of.gradient import Gradient
from bathyscope.model import Model
from bathyscope.wavefront.gradients import depth

BRUTE_FORCE = ("test_parity_with_backward_passes_of_the_model",)
"""What test_looped_parity.py asks of looped models too."""

NAMES = [
    *("llama", "mistral", "gpt2", "gpt_neo", "deepseek_v3", "diffllama", "gpt_neox", "falcon", "cohere2"),
    *("olmo2", "gemma2", "gemma3", "granite", "mixtral", "llama4", "bloom", "mpt", "opt", "opt_post_norm"),
    "gpt2_sink",  # a first token that outweighs all others
    *("gemma4", "gemma4_plain"),  # keys and values of one block used by later ones
    *("mamba", "jamba", "lfm2", "qwen3_next", "openai-gpt"),  # no rows of one token
    *("universal", "moeut"),  # blocks that run several times
    *("zaya", "glm_moe_dsa"),  # router states and chosen positions handed to the next block
]
PARTS = ("norm", "norm_own", "norm_rest")


def gradient(model: Model, ids: list[list[int]]) -> xr.Dataset:
    return waves.run(model, ids, {"gradient": None})["gradient"]


def mean_norm(values: np.ndarray) -> np.ndarray:
    return np.linalg.norm(values, axis=-1).mean(-1)


@pytest.mark.parametrize("name", zoo.swept(NAMES, zoo.FEWER))
def test_parity_with_backward_passes_of_the_model(name: str) -> None:
    model = zoo.build(name)
    ids = zoo.prompts(model, (7, 5))
    found = gradient(waves.loaded(name), ids)
    for number, own_ids in enumerate(ids):
        total = naive_gradients.depth_gradients(model, own_ids, own=False)
        own = naive_gradients.depth_gradients(model, own_ids, own=True)
        for part, wanted in zip(PARTS, (total, own, total - own)):
            expected = mean_norm(wanted)
            gap = np.abs(found[part][number].values - expected)
            assert gap.max() <= bound_of_differences(model, 2e-5) * mean_norm(total).max(), part


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "mamba", "gemma4"])
def test_at_the_last_boundary_everything_stays_at_the_token(name: str) -> None:
    found = gradient(waves.loaded(name), zoo.prompts(zoo.build(name), (9, 6)))
    last = found.isel(boundary=-1)
    assert (last.norm_rest == 0).all()
    assert (last.norm == last.norm_own).all()
    # the last blocks of Gemma 4 use an earlier one's keys and values, so that other tokens do not see the stream there
    used_elsewhere = 3 if name == "gemma4" else found.sizes["boundary"] - 1
    seen = found.norm_rest / found.norm > 1e-6
    assert seen.isel(boundary=slice(0, used_elsewhere)).all()
    assert not seen.isel(boundary=slice(used_elsewhere, None)).any()
    assert (found.norm <= found.norm_own + found.norm_rest + 1e-12).all()


def test_two_tokens_have_one_loss_which_is_all_the_first_tokens_own() -> None:
    """The second token's loss does not exist, so that nothing acts on another position."""
    found = gradient(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (2,)))
    np.testing.assert_allclose(found.norm_own, found.norm, rtol=1e-6)
    assert float((found.norm_rest / found.norm).max()) < 1e-6


@pytest.mark.parametrize("name", ["llama", "gemma4", "bloom"])
def test_rows_of_one_token_equal_a_backward_pass_for_every_token(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded(name)
    ids = zoo.prompts(model.hf, (9, 7))
    unused: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(depth, "_pull_back_by_token", lambda *_: unused.append(name))
        by_rows = gradient(model, ids)
    assert not unused
    by_passes = gradient(replace(model, checks=replace(model.checks, tail={})), ids)
    monkeypatch.setattr(depth, "_KEY_BYTES", 1)  # one row in every call
    monkeypatch.setattr(depth, "_LOGIT_BYTES", 1)
    in_pieces = gradient(model, ids)
    for part in PARTS:
        assert (np.abs(by_passes[part] - by_rows[part]) <= 1e-6 * by_rows.norm).all()
        assert (np.abs(in_pieces[part] - by_rows[part]) <= 1e-6 * by_rows.norm).all()


def test_models_without_gradients_are_refused() -> None:
    model = waves.loaded("llama")
    hf = zoo.entry("llama").build()
    hf.model.layers[0].mlp.up_proj.register_buffer("scale_weight", hf.lm_head.weight.detach().to(int))
    facts = waves.facts(replace(model, anatomy=replace(model.anatomy, model=hf)))
    with pytest.raises(ModelError, match=r"gradient needs gradients, and the weight .*scale_weight is stored as int64"):
        Gradient().prepare(facts, waves.of_lengths(5), seed=0)
