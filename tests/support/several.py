"""Look-alikes of models with several residual streams, built from what is published, on the parts of Llama.

Every model is tiny and random. ``SEVERAL`` makes each by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from support.looped import Looped, LoopedConfig, settings
from support.zoo.entry import randomise
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.llama.modeling_llama import LlamaDecoderLayer


class SeveralConfig(LoopedConfig):
    """The configuration of Llama with a number of streams."""

    model_type = "several_test"
    streams: int = 3


class HyperBlock(LlamaDecoderLayer):
    """A block of Llama whose parts read a mixture of streams and write to all of them (static hyper-connections)."""

    def __init__(self, config: SeveralConfig, index: int) -> None:
        super().__init__(config, index)
        count = config.streams
        self.read = nn.Parameter(torch.ones(2, count))
        self.write = nn.Parameter(torch.ones(2, count))
        self.mix = nn.Parameter(torch.eye(count).repeat(2, 1, 1))

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        """[rows, tokens, streams, width]."""

        def attend(stream: Tensor) -> Tensor:
            return self.self_attn(hidden_states=self.input_layernorm(stream), **kwargs)[0]

        def feed(stream: Tensor) -> Tensor:
            return self.mlp(self.post_attention_layernorm(stream))

        for number, part in enumerate((attend, feed)):
            added = part((self.read[number][:, None] * hidden_states).sum(-2))
            mixed = torch.einsum("ij,btjd->btid", self.mix[number], hidden_states)
            hidden_states = mixed + self.write[number][:, None] * added.unsqueeze(-2)
        return hidden_states


class Several(Looped):
    """Streams behind the tokens: [rows, tokens, streams, width]; read out by their sum."""

    config_class = SeveralConfig
    axis = 2
    block: type[nn.Module] = HyperBlock

    def add_modules(self, config: LoopedConfig) -> None:
        self.layers = nn.ModuleList(self.block(config, index) for index in range(config.num_hidden_layers))

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        return self.collapse(stack(torch.stack([embedded] * self.config.streams, dim=self.axis)))

    def collapse(self, streams: Tensor) -> Tensor:
        """Return what the final norm takes."""
        return streams.sum(self.axis)


class AlternatingBlock(HyperBlock):
    """A block that computes on one stream alone, predicts the others, and corrects them (alternating updates)."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        """[streams, rows, tokens, width]."""
        predicted = torch.einsum("ij,jbtd->ibtd", self.mix[0], hidden_states)
        active = LlamaDecoderLayer.forward(self, predicted[0], **kwargs)
        return predicted + self.write[0][:, None, None, None] * (active - predicted[0])


class Alternating(Several):
    """Streams in front of the rows."""

    axis = 0
    block = AlternatingBlock


class DenselyWeighted(Looped):
    """The input of each block is a weighted sum of what all earlier ones gave, and of the embedding (DenseFormer)."""

    def add_modules(self, config: LoopedConfig) -> None:
        count = config.num_hidden_layers + 1
        self.depth = nn.Parameter(torch.eye(count))

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        embedded = self.embed(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(embedded, positions)
        outputs = [embedded]
        for number, layer in enumerate(self.layers):
            weights = self.depth[number]
            given = sum(weights[place] * output for place, output in enumerate(outputs))
            outputs.append(layer(given, position_ids=positions, position_embeddings=tables))
        return CausalLMOutput(logits=self.read(outputs[-1]))


class Growing(Several):
    """A stream more behind every block."""

    class block(HyperBlock):  # noqa: N801
        def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
            return torch.cat([hidden_states, hidden_states[:, :, :1]], dim=2)


class ReadAll(Several):
    """Reads out what the first block gave next to the last state."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        streams = torch.stack([embedded] * self.config.streams, dim=2)
        first = stack(streams, self.layers[:1])
        return self.collapse(stack(first, self.layers[1:])) + self.collapse(first)


def make(kind: type[Looped], seed: int = 0, **changes: Any) -> Looped:
    """A model of one kind with all weights drawn from ``seed``."""
    config = SeveralConfig(**settings(num_hidden_layers=4, **changes), loops=1, attn_implementation="sdpa")
    model = kind(config).eval()
    randomise(model, seed)
    return model


def plain_and_single() -> tuple[LlamaForCausalLM, Several]:
    """A Llama, and the same weights with one stream of which nothing is mixed."""
    llama = LlamaForCausalLM(LlamaConfig(**settings(num_hidden_layers=4), attn_implementation="sdpa")).eval()
    randomise(llama, 0)
    single = make(Several, streams=1)
    weights = {name.removeprefix("model."): value for name, value in llama.state_dict().items()}
    weights["embed.weight"] = weights.pop("embed_tokens.weight")
    missing = single.load_state_dict(weights, strict=False).missing_keys
    assert all(name.rpartition(".")[2] in ("read", "write", "mix") for name in missing), missing
    with torch.no_grad():
        for block in single.layers:
            for parameter in (block.read, block.write, block.mix):
                parameter.fill_(1.0)
    return llama, single


SEVERAL: dict[str, Callable[[], PreTrainedModel]] = {
    "hyper_connections": lambda: make(Several),
    "alternating_updates": lambda: make(Alternating),
}
