"""A tiny Llama whose blocks do nothing, so that truths can be planted in it, and a tokenizer of words for it."""

from __future__ import annotations

import pytest
import torch
from support import zoo
from support.word_tokenizer import word_tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

pytest.importorskip("sklearn")

WORDS = [*(f"w{number}" for number in range(80)), *(f"{letter}ing" for letter in "bcdfghjklmnpqrst"), "wing", "zing"]
"""With <unk> and ``a`` 100 tokens; w0 has the id 2, the first word in -ing the id 82."""


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return word_tokenizer(WORDS)


@pytest.fixture
def idle() -> PreTrainedModel:
    """Every boundary is the embedding: nothing is ever added to the residual stream."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        for layer in hf.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return hf
