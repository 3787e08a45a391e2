"""A causal language model of a type that nobody has declared, in the style of transformers."""

from __future__ import annotations

from typing import Any

import torch
from support.zoo.entry import randomise
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class UnknownConfig(PreTrainedConfig):
    """Sizes, and the ways in which a model may be unusual.

    Args:
        parallel: attention and MLP both read the block's input.
        logit_scale: what the logits are multiplied by.
        softcap: the logits become c·tanh(x/c); 0 = they do not.
        stream: how blocks take and give the residual stream: ``plain``, ``second`` (after a mask), ``dictionary``
            (given back in one) or ``tokens_first``.
        hidden_state: each block remembers how often it ran, and answers accordingly.
        joined: one module computes both contributions, so that they cannot be told apart.
        by_name: blocks are given the residual stream by its name, which is not ``hidden_states``.
    """

    model_type = "bathyscope-test-unknown"

    def __init__(
        self,
        blocks: int = 4,
        width: int = 32,
        vocabulary: int = 90,
        parallel: bool = False,
        logit_scale: float = 1.0,
        softcap: float = 0.0,
        stream: str = "plain",
        hidden_state: bool = False,
        joined: bool = False,
        by_name: bool = False,
        **rest: Any,
    ) -> None:
        self.blocks, self.width, self.vocabulary = blocks, width, vocabulary
        self.parallel, self.logit_scale = parallel, logit_scale
        self.softcap, self.stream = softcap, stream
        self.hidden_state, self.joined, self.by_name = hidden_state, joined, by_name
        super().__init__(**rest)


class CausalMix(nn.Module):
    """Single-head causal attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed), None


class Block(nn.Module):
    """Attention and MLP, one after the other or side by side."""

    def __init__(self, config: UnknownConfig) -> None:
        super().__init__()
        width = config.width
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.token_mixer_attention = CausalMix(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.config, self.runs = config, 0

    def forward(self, stream: Tensor) -> Tensor:
        self.runs += 1
        a = self.token_mixer_attention(self.first_norm(stream))[0]
        m = self.feed_forward(self.second_norm(stream if self.config.parallel else stream + a))
        if self.config.joined:
            a = a * stream.sigmoid()
        out = stream + a + m
        return out * (1 + 0.1 * self.runs) if self.config.hidden_state else out


class Second(Block):
    """The stream comes after a mask."""

    def forward(self, mask: Tensor, stream: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(stream) * mask[..., None]


class Dictionary(Block):
    """The stream is given back under a name."""

    def forward(self, stream: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return {"stream": super().forward(stream)}


class TokensFirst(Block):
    """[tokens, rows, width]."""

    def forward(self, stream: Tensor) -> Tensor:
        return super().forward(stream.transpose(0, 1)).transpose(0, 1)


KINDS = {"plain": Block, "second": Second, "dictionary": Dictionary, "tokens_first": TokensFirst}


class Trunk(nn.Module):
    """Embedding, blocks and final norm."""

    def __init__(self, config: UnknownConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(64, config.width)
        self.stack = nn.ModuleList(KINDS[config.stream](config) for _ in range(config.blocks))
        self.last_norm = nn.LayerNorm(config.width)
        self.config = config

    def forward(self, input_ids: Tensor) -> Tensor:
        h = self.embed(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        if self.config.stream == "tokens_first":
            h = h.transpose(0, 1)
        for block in self.stack:
            if self.config.stream == "second":
                h = block(torch.ones_like(h[..., 0]), h)
            elif self.config.stream == "dictionary":
                h = block(h)["stream"]
            else:
                h = block(stream=h) if self.config.by_name else block(h)
        return self.last_norm(h.transpose(0, 1) if self.config.stream == "tokens_first" else h)


class UnknownForCausalLM(PreTrainedModel):
    """Trunk and head; ``base_model`` is the whole model, since no prefix is declared."""

    config_class = UnknownConfig

    def __init__(self, config: UnknownConfig) -> None:
        super().__init__(config)
        self.trunk = Trunk(config)
        self.unembed = nn.Linear(config.width, config.vocabulary, bias=False)

    def get_input_embeddings(self) -> nn.Module:
        return self.trunk.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.unembed

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        logits, cap = self.unembed(self.trunk(input_ids)) * self.config.logit_scale, self.config.softcap
        return CausalLMOutput(logits=torch.tanh(logits / cap) * cap if cap else logits)


def build(**unusual: Any) -> UnknownForCausalLM:
    """A random model in evaluation mode."""
    model = UnknownForCausalLM(UnknownConfig(**unusual))
    randomise(model, seed=0)
    return model.eval()
