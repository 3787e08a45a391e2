"""XLM written with a list of blocks, so that forwards with one block changed can be made of it (``support.naive``).

Its modules are those of the untouched model, whose logits it must give to the bit.
"""

from __future__ import annotations

from typing import Any

import torch
from support.zoo.entry import randomise
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

SIDE_BY_SIDE = ("xlm",)
"""Families whose blocks are no modules, which the zoo's sweeps therefore leave out."""


def build_xlm(**changes: Any) -> PreTrainedModel:
    """A tiny random XLM in one direction."""
    shape = {"vocab_size": 120, "emb_dim": 64, "n_layers": 4, "n_heads": 4, "max_position_embeddings": 256}
    config = AutoConfig.for_model("xlm", **{**shape, "causal": True, "pad_token_id": 0, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, 0)
    return model.eval()


class ListedBlock(nn.Module):
    """Attention and MLP, each with a norm behind its sum."""

    def __init__(self, hf: PreTrainedModel, number: int) -> None:
        super().__init__()
        trunk = hf.transformer
        self.attention, self.first_norm = trunk.attentions[number], trunk.layer_norm1[number]
        self.mlp, self.second_norm = trunk.ffns[number], trunk.layer_norm2[number]

    def forward(self, stream: Tensor, mask: Tensor) -> Tensor:
        stream = self.first_norm(stream + self.attention(stream, mask)[0])
        return self.second_norm(stream + self.mlp(stream))


class ListedXLM(nn.Module):
    """XLM with a list of blocks, for prompts without padding."""

    def __init__(self, hf: PreTrainedModel) -> None:
        super().__init__()
        self.config, self.hf, self.dtype = hf.config, hf, hf.dtype
        self.blocks = nn.ModuleList(ListedBlock(hf, number) for number in range(hf.config.n_layers))

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> CausalLMOutput:
        trunk, tokens = self.hf.transformer, input_ids.shape[1]
        mask = torch.ones(1, tokens, tokens).tril()
        h = trunk.embeddings(input_ids) + trunk.position_embeddings(torch.arange(tokens)[None])
        h = trunk.layer_norm_emb(h)
        for block in self.blocks:
            h = block(h, mask)
        return CausalLMOutput(logits=self.hf.pred_layer.proj(h))
