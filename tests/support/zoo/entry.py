"""One entry of the zoo: a tiny random causal language model that exercises one architecture's mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

MATRIX_STD = 0.1
"""At width 64 this gives a linear layer a gain near 0.8: strong enough that every intervention shows."""

VECTOR_STD = 0.15
"""Spread of norm weights and biases around their initial value."""

CONVOLUTION_STD = 0.4
"""Short convolution kernels have a fan-in of only a few, so they need larger weights to matter."""

_FIXED = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
"""Tables that follow from the configuration and make attention causal (MiniMax)."""

WIDTH = 64
VOCABULARY = 120
BLOCKS = 5
WINDOW = 6

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
"""The shape that most configurations share, under the names that most of them use."""

GROUPED: dict[str, Any] = {"num_key_value_heads": 2}
HEAD: dict[str, Any] = {"head_dim": 16}
TIED: dict[str, Any] = {"tie_word_embeddings": True}
ALTERNATING: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"],
}
"""Windows in every other block, so that a mask taken from the wrong block shows."""


@dataclass(frozen=True)
class Entry:
    """A tiny model of the zoo.

    Args:
        name: unique name; a family's plain entry carries the model type.
        family: name of the anatomy family that must serve it.
        config: makes the configuration (called once a build, since models write into it).
        notes: what this entry exercises.
        parts: whether attention and MLP contributions exist that sum to the block's.
        tails: whether a tail row over a donor's keys and values is exact; None = not known beforehand.
        attn: the attention implementation to build with where the caller names none.
        refused: the family cannot be measured at all and must be refused with a reason.
        wire: changes the model after its weights are drawn.
        within: a context in which the model is built, for what is not installed here.
        kind: the class of the model, where transformers' automatic one does not know the configuration.
    """

    name: str
    family: str
    config: Callable[[], PreTrainedConfig]
    notes: str = ""
    parts: bool = True
    tails: bool | None = True
    attn: str | None = None
    refused: bool = False
    wire: Callable[[nn.Module], None] | None = None
    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    kind: type[PreTrainedModel] | None = None

    def build(self, *, seed: int = 0, dtype: torch.dtype = torch.float32, attn: str | None = None) -> PreTrainedModel:
        """Return the model in evaluation mode, with every parameter drawn anew from ``seed``.

        It is built in its dtype, as a checkpoint is loaded: casting a whole model rounds its rotary tables too.
        """
        chosen = attn or self.attn
        options: dict[str, Any] = {"dtype": dtype} | ({} if chosen is None else {"attn_implementation": chosen})
        with torch.random.fork_rng(), self.within():
            torch.manual_seed(seed)
            build = AutoModelForCausalLM.from_config if self.kind is None else self.kind._from_config
            model = build(self.config(), **options)
        randomise(model, seed)
        if self.wire is not None:
            self.wire(model.eval())
        return model.eval()  # type: ignore[no-any-return]


def config(model_type: str, *shapes: dict[str, Any], **changes: Any) -> Callable[[], PreTrainedConfig]:
    """A configuration of ``model_type`` in the common shape, overlaid with ``shapes`` and then ``changes``.

    A value of ``...`` removes the common entry, for types that call it otherwise.
    """
    merged = dict(COMMON)
    for overlay in (*shapes, changes):
        merged.update(overlay)
    given = {key: value for key, value in merged.items() if value is not ...}
    return lambda: AutoConfig.for_model(model_type, **given)


def randomise(model: nn.Module, seed: int) -> None:
    """Draw all matrices anew and move every one-dimensional parameter away from its initial value.

    Fresh models have unit norm weights and zero biases, which hide faults in post-norm contributions and in
    folding. Buffers that a checkpoint would carry (router corrections, layer scalars) move too.
    """
    draw = torch.Generator().manual_seed(seed)
    persistent = set(model.state_dict())
    tensors = dict(model.named_parameters())
    tensors |= {name: buffer for name, buffer in model.named_buffers() if name in persistent}
    with torch.no_grad():
        for name, tensor in sorted(tensors.items()):
            if not tensor.is_floating_point() or name.rpartition(".")[2] in _FIXED:
                continue
            noise = torch.randn(tensor.shape, generator=draw)
            if tensor.ndim < 2:
                tensor.add_(VECTOR_STD * noise)
            else:
                tensor.copy_((CONVOLUTION_STD if tensor.shape[1] == 1 else MATRIX_STD) * noise)
