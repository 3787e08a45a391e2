"""Attention locality: parity with the weights that models themselves give, heads built for it, and its limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import waves, zoo
from support.built_heads import build_previous, even_gpt2
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.of.attention_locality import AttentionLocality, AttentionLocalityOptions
from bathyscope.model import load
from bathyscope.model.anatomy import attention

BRUTE_FORCE_OF_PARTS = ("test_parity_with_the_weights_of_the_model",)
"""What test_looped_parity.py asks of looped models too."""

OFFSETS = (1, 2, 4, 8, 16)
LENGTHS = (14, 3, 20)
NAMES = [
    *("llama", "mistral", "qwen2_windows", "diffllama", "phi3", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "gpt_neox"),
    *("opt", "xglm", "bloom", "mpt", "falcon", "falcon_new", "cohere2", "ctrl", "olmo2", "gemma2", "gemma3", "gemma4"),
    *("granite", "mixtral", "deepseek_v2", "gpt_oss", "llama4", "granite_swa", "doge", "universal", "moeut"),
    *("jamba", "lfm2", "qwen3_next", "recurrent_gemma", "gpt2_sink"),
]
VARIABLES = ("weight", "mean_prev5", "total_prev5", "self_weight", "first_key", "head_prev1", "head_prev5")


def locality(model: bathyscope.Model, ids: list[list[int]], **options: Any) -> xr.Dataset:
    return waves.run(model, ids, {"attention_locality": options or None})["attention_locality"]


def own_weights(name: str, ids: list[int]) -> list[np.ndarray]:
    """[heads, T, T] of every block that attends, as the model itself gives them."""
    model = zoo.build(name, attn="eager")
    with torch.no_grad():
        found = model(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    return [weights[0].double().numpy() for weights in found if weights is not None]


def expected(weights: np.ndarray) -> dict[str, np.ndarray]:
    """One block's variables from its whole map, pair by pair."""
    heads, tokens, _ = weights.shape

    def pairs(offsets: range | tuple[int, ...]) -> np.ndarray:
        found = [weights[:, q, q - i] for i in offsets for q in range(tokens) if q >= i]
        return np.array(found) if found else np.full((1, heads), np.nan)

    return {
        "weight": np.array([pairs((i,)).mean() for i in OFFSETS]),
        "mean_prev5": pairs(range(1, 6)).mean(),
        "total_prev5": 5 * pairs(range(1, 6)).mean(),
        "self_weight": pairs((0,)).mean(),
        "first_key": weights[:, 1:, 0].mean(),
        "head_prev1": pairs((1,)).mean(0),
        "head_prev5": pairs(range(1, 6)).mean(0),
    }


@pytest.mark.parametrize("name", zoo.swept(NAMES, zoo.FEWER))
def test_parity_with_the_weights_of_the_model(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = locality(waves.loaded(name), ids)
    attends = np.isfinite(found.total_prev5).all("prompt").values
    for number, one in enumerate(ids):
        blocks = [expected(weights) for weights in own_weights(name, one)]
        assert len(blocks) == attends.sum()
        for variable in VARIABLES:
            got = found[variable][number].values[attends]
            np.testing.assert_allclose(got, [block[variable] for block in blocks], atol=5e-6, rtol=0, err_msg=variable)
            assert np.isnan(found[variable][number].values[~attends]).all()


@pytest.mark.parametrize("name", ["llama", "gemma2", "bloom"])
def test_prompts_are_alone_and_chunks_make_no_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    together = locality(waves.loaded(name), ids)
    monkeypatch.setattr(attention.Attention.chunks, "__defaults__", (200,))
    for number, one in enumerate(ids):
        alone = locality(waves.loaded(name), [one])
        xr.testing.assert_allclose(alone.isel(prompt=0), together.isel(prompt=number), atol=2e-6, rtol=0)


def test_a_window_gives_nothing_to_tokens_beyond_it() -> None:
    found = locality(waves.loaded("mistral"), zoo.prompts(zoo.build("mistral"), LENGTHS))
    assert (found.weight.sel(offset=8)[[0, 2]] == 0).all()
    assert (found.weight.sel(offset=4)[[0, 2]] > 0).all()


def test_offsets_that_no_prompt_reaches_have_no_value() -> None:
    found = locality(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), LENGTHS))
    assert np.isnan(found.weight[1].sel(offset=[4, 8, 16])).all()
    assert np.isfinite(found.weight[1].sel(offset=[1, 2])).all()
    assert np.isnan(found.weight[0].sel(offset=16)).all()
    assert np.isfinite(found.weight[2]).all()


def test_without_queries_attention_is_uniform() -> None:
    ids = [torch.arange(n).remainder(50).tolist() for n in (32, 17)]
    found = locality(load(even_gpt2(32)), ids)
    for number, one in enumerate(ids):
        uniform = [np.tril(np.ones((4, len(one), len(one)))) / np.arange(1, len(one) + 1)[:, None]]
        wanted = expected(uniform[0])
        for variable in VARIABLES:
            got = found[variable][number].values
            np.testing.assert_allclose(got, np.broadcast_to(wanted[variable], got.shape), atol=1e-6, err_msg=variable)


@pytest.mark.parametrize(("block", "head"), [(0, 2), (1, 0)])
def test_a_head_built_for_the_token_before_is_found(block: int, head: int) -> None:
    model = even_gpt2(32)
    build_previous(model, block, head)
    found = locality(load(model), [list(range(32)), list(range(20, 0, -1))])
    plain = locality(load(even_gpt2(32)), [list(range(32)), list(range(20, 0, -1))])
    by_head = found.head_prev1.values.reshape(2, -1)
    assert (by_head.argmax(1) == 4 * block + head).all()
    assert (found.head_prev1[:, block, head] > 0.999).all()
    # one head of four gives all its attention to the token before, the others as much as without it
    others = 3 / 4 * plain.weight.sel(offset=1)[:, block]
    np.testing.assert_allclose(found.weight.sel(offset=1)[:, block], 1 / 4 + others, atol=1e-3)
    elsewhere = [b for b in range(3) if b != block]
    xr.testing.assert_allclose(found.weight[:, elsewhere], plain.weight[:, elsewhere], atol=1e-6)


def test_other_measures_stay_as_they_are_bit_for_bit() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    alone = waves.run(waves.loaded("llama"), ids, {"lens": None, "residual": None})
    beside = waves.run(waves.loaded("llama"), ids, {"lens": None, "residual": None, "attention_locality": None})
    for measure, dataset in alone.items():
        xr.testing.assert_identical(beside[measure], dataset)


class Largest(TorchDispatchMode):
    """The largest tensor that an operation gives while attention is looked at."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        frame: Any = sys._getframe()
        while frame is not None and frame.f_code.co_name != "summed_weights":
            frame = frame.f_back
        if frame is not None and isinstance(out, Tensor):
            self.entries = max(self.entries, out.numel())
        return out


def test_memory_does_not_grow_with_the_square_of_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = 1 << 14
    monkeypatch.setattr(attention.Attention.chunks, "__defaults__", (allowed,))
    model = waves.loaded("llama")
    for tokens in (128, 192):
        with Largest() as seen:
            locality(model, zoo.prompts(zoo.build("llama"), (tokens,)))
        # the keys, once: heads × tokens × head width
        assert allowed // 2 < seen.entries <= max(allowed, 4 * tokens * 16)


def test_the_heads_of_a_model_that_shows_no_weights_are_not_guessed() -> None:
    with pytest.raises(ModelError, match=r"No block of this mamba .* shows attention weights"):
        bathyscope.survey(zoo.build("mamba"), [[5, 6, 7]], ["attention_locality"], progress=False)


@pytest.mark.parametrize("offsets", [(), (0, 1), (-1,), (2, 2)])
def test_offsets_that_mean_nothing_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match=r"attention_locality: offsets=.* allowed: 1 or more"):
        locality(waves.loaded("llama"), [[5, 6, 7]], offsets=offsets)


def test_own_offsets() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    usual, own = locality(waves.loaded("llama"), ids), locality(waves.loaded("llama"), ids, offsets=(3, 1))
    assert own.offset.values.tolist() == [3, 1]
    xr.testing.assert_equal(own.weight.sel(offset=1), usual.weight.sel(offset=1))
    xr.testing.assert_equal(own.mean_prev5, usual.mean_prev5)


@pytest.mark.shared
def test_golden(shared: Callable[[str], Path]) -> None:
    golden = json.loads(shared("goldens/lad2024_tiny-gpt2.json").read_text())
    model = str(shared("checkpoints/tiny-gpt2"))
    run = bathyscope.survey(model, golden["ids"], ["attention_locality"], progress=False)
    found, wanted = run["attention_locality"].mean_prev5.values, np.array(golden["attention_prev5_mean"])
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_all_measures_of_a_model_without_attention_leave_it_out() -> None:
    measure = AttentionLocality(AttentionLocalityOptions())
    reason = measure.unavailable(waves.facts(waves.loaded("mamba")), waves.of_lengths(9))
    assert reason is not None
    assert "mamba" in reason.lower()
    assert measure.unavailable(waves.facts(waves.loaded("llama")), waves.of_lengths(9)) is None


def test_an_offset_beyond_every_prompt_is_said() -> None:
    ids = zoo.prompts(zoo.build("llama"), (5, 3))
    said = r"2 of 2 prompts are too short to have a token 4 or 5 before another \(the shortest has 3 tokens"
    with pytest.warns(UserWarning, match=said):
        found = locality(waves.loaded("llama"), ids, offsets=(1, 4, 5))
    assert found.weight.sel(offset=5).isnull().all()
    assert found.weight.sel(offset=4).notnull().any()


def test_a_single_prompt_that_is_too_short_for_an_offset_is_said() -> None:
    ids = zoo.prompts(zoo.build("llama"), (9, 4, 7))
    with pytest.warns(UserWarning, match="1 of 3 prompts are too short to have a token 5 before another") as said:
        found = locality(waves.loaded("llama"), ids, offsets=(1, 3, 5))
    assert len([one for one in said if "attention_locality" in str(one.message)]) == 1
    assert found.weight.sel(offset=5).isnull().all("block").values.tolist() == [False, True, False]
    assert found.weight.sel(offset=3).notnull().all()
