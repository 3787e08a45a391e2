"""A decoder whose group of blocks runs several times, every run of a block being a module of its own.

An execution step is a block with its own module objects, so that whoever watches or changes one step (hooks, caches,
schedules) reaches that step alone. Its parameters are the very tensors of the first run of that block: they are
trained, moved and saved once.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers import initialization as init
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, MoeCausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from bathyscope_lab.models.attention import CausalAttention
from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.models.rotary import Turn, rotary_turn


def norm_of(config: SharedLayerConfig) -> nn.Module:
    """A norm of the kind the configuration names."""
    kind = nn.LayerNorm if config.norm == "layer_norm" else nn.RMSNorm
    return kind(config.hidden_size, eps=config.norm_eps)


class SharedBlock(GradientCheckpointingLayer):
    """One execution step: x′ = x + attention(x, norm(x)), then x″ = x′ + feed-forward(x′, norm(x′)).

    Both parts are given the stream as it is and normed, and take of the two what they want.

    Args:
        config: of the model.
        attention, feed_forward: the two parts.
    """

    def __init__(self, config: SharedLayerConfig, attention: nn.Module, feed_forward: nn.Module) -> None:
        super().__init__()
        self.input_layernorm = norm_of(config)
        self.self_attn = attention
        self.post_attention_layernorm = norm_of(config)
        self.mlp = feed_forward

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Turn,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        """The stream [batch, tokens, width] after the step."""
        first, second = self.input_layernorm, self.post_attention_layernorm
        attended, _ = self.self_attn(
            hidden_states,
            self.read(hidden_states, first),
            position_embeddings=position_embeddings,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **kwargs,
        )
        hidden_states = self.joined(hidden_states + attended, first)
        return self.joined(hidden_states + self.mlp(hidden_states, self.read(hidden_states, second)), second)

    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        """What a part is given as the normed stream."""
        normed: Tensor = norm(stream)
        return normed

    def joined(self, total: Tensor, norm: nn.Module) -> Tensor:
        """The stream after a part, from the sum of the stream and what the part adds."""
        return total


class PostNormBlock(SharedBlock):
    """A step that norms the sums: x′ = norm(x + attention(x)), then x″ = norm(x′ + feed-forward(x′)).

    What a part adds goes through a norm together with the stream, so that x″ − x is not the sum of two contributions.
    """

    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        """The stream as it is."""
        return stream

    def joined(self, total: Tensor, norm: nn.Module) -> Tensor:
        """The sum, normed."""
        normed: Tensor = norm(total)
        return normed


class SharedLayerPreTrainedModel(PreTrainedModel):
    """What the models of this package have in common for the library."""

    config: SharedLayerConfig
    config_class = SharedLayerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["SharedBlock", "PostNormBlock"]  # noqa: RUF012 — the library declares these as instance variables
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Matrices at √(2 / steps) of the scale that keeps variances, embeddings of about unit norm; or all alike."""
        steps, std = self.config.group_size * self.config.repeats, self.config.initializer_range
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5 if std is None else std)
            return
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
            return
        for _, weight in module.named_parameters(recurse=False):
            init.normal_(weight, std=math.sqrt(2 / steps / self._inputs(weight)) if std is None else std)

    def _inputs(self, weight: Tensor) -> int:
        """How many numbers an output of a matrix sums: [to, from], or [experts, from, to]."""
        return weight.shape[-1] if weight.ndim == 2 else weight.shape[-2]


class SharedLayerModel(SharedLayerPreTrainedModel):
    """The decoder without its unembedding."""

    attention_type: ClassVar[type[CausalAttention]]
    feed_forward_type: ClassVar[type[nn.Module]]
    _can_record_outputs = {"hidden_states": SharedBlock, "attentions": CausalAttention}  # noqa: RUF012

    def __init__(self, config: SharedLayerConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(self.make_block(step) for step in range(config.group_size))
        with torch.device("meta"):  # these weights never come to be
            again = [self.make_block(step) for step in range(config.group_size, config.group_size * config.repeats)]
        self.layers.extend(again)
        self.norm = norm_of(config)
        self._tied_weights_keys = self._tie_steps()
        self.register_load_state_dict_pre_hook(_name_again)
        self.post_init()

    def make_block(self, step: int) -> SharedBlock:
        """The block of an execution step, with weights of its own."""
        post_norm = step % self.config.group_size < self.config.post_norm_blocks
        kind = PostNormBlock if post_norm else SharedBlock
        return kind(self.config, self.attention_type(self.config, step), self.feed_forward_type(self.config))

    def _tie_steps(self) -> dict[str, str]:
        """Gives every repeated block the parameters of its first run; their names, and whose parameters they are."""
        tied = {}
        for step in range(self.config.group_size, len(self.layers)):
            first = step % self.config.group_size
            for path, parameter in self.layers[first].named_parameters():
                owner, _, name = path.rpartition(".")
                setattr(self.layers[step].get_submodule(owner), name, parameter)
                tied[f"layers.{step}.{path}"] = f"layers.{first}.{path}"
        return tied

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """The library ties what this names, here whether or not the embedding is tied to the unembedding."""
        if all_submodels:
            found: dict[str, str] = super().get_expanded_tied_weights_keys(all_submodels=True)
            return found
        return dict(self._tied_weights_keys)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """The normed stream after the last step."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        resid = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            past = 0 if past_key_values is None else past_key_values.get_seq_length()
            position_ids = torch.arange(past, past + resid.shape[1], device=resid.device)[None]
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=resid,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            position_ids=position_ids,
        )
        turn = rotary_turn(position_ids, self.config.rotary_entries, self.config.rope_theta, resid)
        # what is to be recorded concerns the decorator alone
        given = {name: value for name, value in kwargs.items() if not name.startswith("output_")}
        for step in self.layers:
            resid = step(
                resid,
                position_embeddings=turn,
                attention_mask=mask,
                past_key_values=past_key_values,
                position_ids=position_ids,
                **given,
            )
        return BaseModelOutputWithPast(last_hidden_state=self.norm(resid), past_key_values=past_key_values)


def _name_again(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Checkpoints hold shared weights once; ``load_state_dict`` wants them under every name."""
    for name, source in module._tied_weights_keys.items():  # type: ignore[union-attr, operator]
        if prefix + source in state:
            state.setdefault(prefix + name, state[prefix + source])


class SharedLayerForCausalLM(SharedLayerPreTrainedModel, GenerationMixin):
    """A decoder with its unembedding; ``decoder`` is its kind."""

    decoder: ClassVar[type[SharedLayerModel]]
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: SharedLayerConfig) -> None:
        super().__init__(config)
        self.model = self.decoder(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def auxiliary_loss(self, outputs: Any, attention_mask: Tensor | None) -> Tensor | None:
        """What is added to the loss while training; None = nothing."""
        return None

    def recorded(self) -> dict[str, bool]:
        """What the decoder is asked to record for ``auxiliary_loss``."""
        return {}

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> MoeCausalLMOutputWithPast:
        """Logits [batch, tokens kept, vocabulary].

        With ``labels`` also the mean cross-entropy of the next label; labels of −100 do not count. While training,
        ``aux_loss`` is given and added to it.
        """
        recorded = self.recorded() if self.training else {}
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **{**kwargs, **recorded},
        )
        logits = self.lm_head(slice_logits_to_keep(outputs.last_hidden_state, logits_to_keep))
        auxiliary = self.auxiliary_loss(outputs, attention_mask) if self.training else None
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
            if auxiliary is not None:
                loss = loss + auxiliary * _share(labels, kwargs.get("num_items_in_batch"))
        return MoeCausalLMOutputWithPast(
            loss=loss,
            aux_loss=auxiliary,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


def _share(labels: Tensor, predicted: Any) -> Any:
    """This batch's share of the predicted tokens of a step of training, over whose batches losses are summed."""
    return 1 if predicted is None else (labels[..., 1:] != -100).sum() / predicted
