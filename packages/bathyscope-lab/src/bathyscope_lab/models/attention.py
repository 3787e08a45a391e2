"""Causal attention with rotary positions, in which values and outputs may be made in any way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.models.rotary import Turn, turned


def open_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """The library's ``eager`` kind: weights [batch, heads, tokens, keys] are computed in the open and returned."""
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
    return (weights @ value).transpose(1, 2), weights


class CausalAttention(nn.Module):
    """Multi-head attention whose queries, keys and values come from the normed stream.

    Args:
        config: of the model.
        step: execution step, under which keys and values are kept in a cache.
    """

    is_causal = True

    def __init__(self, config: SharedLayerConfig, step: int) -> None:
        super().__init__()
        assert config.head_dim is not None
        self.config = config
        self.layer_idx = step
        self.heads, self.head_dim = config.num_attention_heads, config.head_dim
        self.num_key_value_groups = 1
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.make_values(config)

    def make_values(self, config: SharedLayerConfig) -> None:
        """Makes the weights of values and outputs."""
        self.v_proj = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False)

    def values(self, resid_BTD: Tensor, normed_BTD: Tensor) -> Tensor:
        """What is attended to, [batch, tokens, heads, head width]."""
        return self._by_head(self.v_proj(normed_BTD))

    def output(self, attended_BTHD: Tensor, normed_BTD: Tensor) -> Tensor:
        """What the heads write into the stream, [batch, tokens, width]."""
        written: Tensor = self.o_proj(attended_BTHD.flatten(-2))
        return written

    def forward(
        self,
        resid_BTD: Tensor,
        normed_BTD: Tensor,
        position_embeddings: Turn,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """What attention adds to the stream [batch, tokens, width], and its weights where they are computed openly."""
        query, key = (
            turned(self._by_head(project(normed_BTD)).transpose(1, 2), position_embeddings)
            for project in (self.q_proj, self.k_proj)
        )
        value = self.values(resid_BTD, normed_BTD).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(str(self.config._attn_implementation), open_attention)
        attended, weights = attend(
            self, query, key, value, attention_mask, dropout=0.0, scaling=self.head_dim**-0.5, **kwargs
        )
        return self.output(attended, normed_BTD), weights

    def _by_head(self, projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (self.heads, self.head_dim))
