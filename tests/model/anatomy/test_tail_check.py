"""Tails are tried on every block: the first, and the only one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import naive, naive_erasure, rounding, zoo
from support.zoo.entry import randomise
from transformers import AutoModelForCausalLM, PreTrainedModel

from bathyscope import Prompt
from bathyscope.model import load
from bathyscope.surveying.engines import survey


def shortened(name: str, blocks: int) -> PreTrainedModel:
    """A zoo model of its first blocks alone."""
    config = zoo.entry(name).config()
    if config.__dict__.get("layer_types"):
        config.layer_types = config.layer_types[:blocks]
    config.num_hidden_layers = blocks
    if hasattr(config, "num_blocks"):
        config.num_blocks = blocks
    with torch.random.fork_rng():
        torch.manual_seed(0)
        hf = AutoModelForCausalLM.from_config(config)
    randomise(hf, 0)
    return hf.eval()


@pytest.mark.parametrize(
    ("name", "blocks", "tails"),
    [
        ("recurrent_gemma", 2, False),
        ("recurrent_gemma", 1, False),
        ("xlstm", 1, False),
        ("openai-gpt", 1, False),
        ("mamba", 1, False),
        ("rwkv", 2, False),
        ("jamba", 1, False),
        ("lfm2", 1, None),
        ("qwen3_next", 1, None),
        ("llama", 1, True),
        ("gpt2", 1, True),
    ],
)
def test_erasure_is_exact_whatever_the_first_block_is(name: str, blocks: int, tails: bool | None) -> None:
    hf = shortened(name, blocks)
    model = load(hf)
    assert model.n_blocks == blocks
    assert tails in (None, model.checks.tails)
    (ids,) = zoo.prompts(hf, (9,))
    found = survey(model, [Prompt(ids=ids, answer_tokens=3)], ["erasure"], progress=False, erasure={"future": True})
    own = naive.blocks_of(hf)
    values = naive_erasure.mean_residual(hf, own, [ids])
    effect, future = naive_erasure.erasure(hf, own, ids, 3, values)
    np.testing.assert_allclose(found["erasure"].effect[0], effect, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found["erasure"].effect_future[0], future, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_the_gap_is_the_largest_of_any_block(name: str) -> None:
    model = load(shortened(name, 2))
    checks = model.checks
    assert set(checks.tail) == {1, 6, 11}
    assert max(checks.tail.values()) < rounding.floor(model.hf)
    assert checks.tail_reason == ""
