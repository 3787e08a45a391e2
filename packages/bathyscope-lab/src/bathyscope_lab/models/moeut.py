"""MoEUT: a universal transformer with experts in attention and feed-forward, and no norm on the way of values."""

from __future__ import annotations

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from torch import Tensor
from transformers.utils.output_capturing import OutputRecorder

from bathyscope.errors import OptionError
from bathyscope_lab.models.attention import CausalAttention
from bathyscope_lab.models.balance import balance
from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.models.decoder import SharedBlock, SharedLayerForCausalLM, SharedLayerModel
from bathyscope_lab.models.expert_feed_forward import ExpertFeedForward
from bathyscope_lab.models.experts import Router
from bathyscope_lab.models.switch_head import SwitchHead

_SCORES = 2
"""Where a router's selection holds the scores."""


@strict
class MoeutConfig(SharedLayerConfig):
    """A MoEUT model; the defaults are csordas2025's.

    Args:
        attention_experts, attention_experts_per_tok: of every head, for values and for outputs: how many, and how many
            a token takes.
        num_experts, num_experts_per_tok: the same of the feed-forward part.
        moe_intermediate_size: neurons of each of its experts.
        feed_forward_balance, attention_balance: weights of the entropy regularisers in the loss.

    Raises:
        OptionError: a token would take more experts than there are, or none.
    """

    model_type = "bathyscope_moeut"

    num_attention_heads: int = 4
    head_dim: int | None = 128
    attention_experts: int = 10
    attention_experts_per_tok: int = 2
    num_experts: int = 387
    num_experts_per_tok: int = 16
    moe_intermediate_size: int = 128
    feed_forward_balance: float = 0.01
    attention_balance: float = 0.001

    def __post_init__(self, **kwargs: Any) -> None:
        for there, taken in (
            ("attention_experts", "attention_experts_per_tok"),
            ("num_experts", "num_experts_per_tok"),
        ):
            if not 1 <= getattr(self, taken) <= getattr(self, there):
                raise OptionError(
                    f"{taken}={getattr(self, taken)} with {there}={getattr(self, there)}: a token takes at least one "
                    f"expert and at most all of them."
                )
        super().__post_init__(**kwargs)


class MoeutModel(SharedLayerModel):
    """The decoder of MoEUT."""

    config: MoeutConfig
    config_class = MoeutConfig
    attention_type = SwitchHead
    feed_forward_type = ExpertFeedForward
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": SharedBlock,
        "attentions": CausalAttention,
        "feed_forward_scores": OutputRecorder(Router, index=_SCORES, layer_name="mlp"),
        "attention_scores": OutputRecorder(Router, index=_SCORES, layer_name="self_attn"),
    }


class MoeutForCausalLM(SharedLayerForCausalLM):
    """MoEUT with its unembedding."""

    config: MoeutConfig
    config_class = MoeutConfig
    decoder: ClassVar = MoeutModel

    def recorded(self) -> dict[str, bool]:
        """The scores of all routers."""
        return {"output_feed_forward_scores": True, "output_attention_scores": True}

    def auxiliary_loss(self, outputs: Any, attention_mask: Tensor | None) -> Tensor:
        """The weighted entropy regularisers of feed-forward and attention; tokens that are padding do not count."""
        mask = attention_mask if attention_mask is not None and attention_mask.ndim == 2 else None
        feed_forward = balance(outputs["feed_forward_scores"], 1, mask)
        # values and outputs
        attention = balance(outputs["attention_scores"], 2, mask)
        return self.config.feed_forward_balance * feed_forward + self.config.attention_balance * attention
