"""A universal transformer: an ordinary decoder whose group of blocks is repeated; with one repeat, a plain decoder."""

from __future__ import annotations

from typing import ClassVar

from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.activations import ACT2FN

from bathyscope_lab.models.attention import CausalAttention
from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.models.decoder import SharedLayerForCausalLM, SharedLayerModel


@strict
class UniversalTransformerConfig(SharedLayerConfig):
    """A universal transformer; the defaults with ``group_size=18, repeats=1`` are csordas2025's Transformer.

    Args:
        intermediate_size: neurons of the feed-forward part.
        hidden_act: their activation, a name the library knows (``"relu"``, ``"silu"``, ``"gelu"`` …).
        gated_mlp: neurons are the activation of one projection times another projection.
    """

    model_type = "bathyscope_universal"

    intermediate_size: int = 4110
    hidden_act: str = "relu"
    gated_mlp: bool = False


class FeedForward(nn.Module):
    """One hidden layer, gated or not, on the normed stream.

    Args:
        config: of the model.
    """

    def __init__(self, config: UniversalTransformerConfig) -> None:
        super().__init__()
        width, neurons = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, neurons, bias=False) if config.gated_mlp else None
        self.up_proj = nn.Linear(width, neurons, bias=False)
        self.down_proj = nn.Linear(neurons, width, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, resid_BTD: Tensor, normed_BTD: Tensor) -> Tensor:
        """What is added to the stream, [batch, tokens, width]."""
        up = self.up_proj(normed_BTD)
        neurons = self.act_fn(up) if self.gate_proj is None else self.act_fn(self.gate_proj(normed_BTD)) * up
        added: Tensor = self.down_proj(neurons)
        return added


class UniversalTransformerModel(SharedLayerModel):
    """The decoder of a universal transformer."""

    config: UniversalTransformerConfig
    config_class = UniversalTransformerConfig
    attention_type = CausalAttention
    feed_forward_type = FeedForward


class UniversalTransformerForCausalLM(SharedLayerForCausalLM):
    """A universal transformer with its unembedding."""

    config: UniversalTransformerConfig
    config_class = UniversalTransformerConfig
    decoder: ClassVar = UniversalTransformerModel
