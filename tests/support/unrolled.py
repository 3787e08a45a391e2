"""Looped models of ``support.looped`` written out by hand: a module for every run, with what stands before it inside.

They are ordinary models with one list of blocks, of which each runs once, and share all weights with the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from support.looped import Looped, LoopedConfig
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from bathyscope.model.anatomy.family import Family, Site


class UnrolledConfig(LoopedConfig):
    """The same configuration under a type of its own."""

    model_type = "unrolled_test"


class Entered(LlamaDecoderLayer):
    """A block with a module in front of it."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        return super().forward(self.entry(hidden_states), **kwargs)


class Folded(LlamaDecoderLayer):
    """A block on a stream and a second one: it takes the first, and hands the second on, or lets it follow."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        stream, second = hidden_states.chunk(2, dim=-1)
        out = super().forward(self.entry(stream, second), **kwargs)
        return torch.cat([out, out if self.follows else second], dim=-1)


class Shift(nn.Module):
    """Adds the embedding of each position and one of a loop."""

    def __init__(self, model: nn.Module, loop: int) -> None:
        super().__init__()
        self.position, self.time, self.loop = model.position, model.time, loop

    def forward(self, stream: Tensor) -> Tensor:
        return stream + self.position.weight[: stream.shape[1]] + self.time.weight[self.loop]


class Entry(nn.Module):
    """Any function of stream and second stream."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, stream: Tensor, second: Tensor) -> Tensor:
        return self.function(stream, second)


class HalfNorm(nn.Module):
    """The final norm of the first stream."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, folded: Tensor) -> Tensor:
        return self.norm(folded.chunk(2, dim=-1)[0])


class Unrolled(PreTrainedModel):
    """A looped model with a module for every run.

    Args:
        embed: makes the first block's input from the embedding.
    """

    config_class = UnrolledConfig
    _supports_sdpa = True

    def __init__(
        self, looped: Looped, runs: list[nn.Module], norm: nn.Module, embed: Callable[[Tensor], Tensor] = lambda h: h
    ) -> None:
        super().__init__(UnrolledConfig(**looped.config.to_diff_dict() | {"attn_implementation": "sdpa"}))
        self.embed, self.rotary, self.norm, self.lm_head = looped.embed, looped.rotary, norm, looped.lm_head
        self.runs, self.entering = nn.ModuleList(runs), embed

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        stream = self.entering(self.embed(input_ids))
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(stream, positions)
        for run in self.runs:
            stream = run(stream, attention_mask=None, position_ids=positions, position_embeddings=tables)
        return CausalLMOutput(logits=self.lm_head(self.norm(stream)))


def sharing_copy(block: nn.Module, kind: type[nn.Module] = LlamaDecoderLayer, **attributes: Any) -> nn.Module:
    """A copy of a block whose parameters stay those of the first, as a block of another kind."""
    copied = copy.deepcopy(block, {id(weight): weight for weight in block.parameters()})
    copied.__class__ = kind
    for name, value in attributes.items():
        setattr(copied, name, value)
    return copied


def unrolled(name: str, looped: Any) -> tuple[Unrolled, Family]:
    """The model called ``name`` in ``LOOPED``, written out, and where its parts are."""
    loops, blocks = looped.config.loops, [*looped.layers]
    parts: dict[str, Any] = {}
    if name == "huginn_still":
        runs, norm = _core(looped, loops), HalfNorm(looped.norm)
        parts = {"attention": None, "mlp": None}
        model = Unrolled(looped, runs, norm, lambda h: torch.cat([h, h], dim=-1))
    else:
        runs = []
        for loop in range(loops):
            for index, block in enumerate(blocks):
                entry = {"ouro": lambda _: looped.norm, "coordinates": lambda loop: Shift(looped, loop)}.get(name)
                enters = entry is not None and index == 0 and loop > 0
                runs.append(sharing_copy(block, Entered, entry=entry(loop)) if enters else sharing_copy(block))  # type: ignore[misc]
        # the norm of Llama calls its argument so
        argument = "stream" if name == "coordinates" else "hidden_states"
        parts = {"others": (Site("entry", minus=argument),)}
        embed = Shift(looped, 0) if name == "coordinates" else (lambda h: h)
        model = Unrolled(looped, runs, looped.norm, embed)
    family = Family("unrolled", ("unrolled_test",), blocks="runs", final_norm="norm", **parts)
    return model.eval(), family


def _core(looped: Any, loops: int) -> list[nn.Module]:
    """The runs of ``HuginnLike`` without a random state: prelude, core and coda on a pair of streams."""

    def join(state: Tensor, injected: Tensor) -> Tensor:
        return looped.adapter(torch.cat([state, injected], dim=-1))

    entries = [
        Entry(lambda _, injected: join(torch.zeros_like(injected), injected)),
        *[Entry(lambda state, injected: join(looped.core_norm(state), injected)) for _ in range(loops - 1)],
    ]
    runs = [sharing_copy(looped.prelude[0], Folded, entry=Entry(lambda h, _: h), follows=True)]
    for entry in entries:
        for index, block in enumerate(looped.layers):
            inside = entry if index == 0 else Entry(lambda h, _: h)
            runs.append(sharing_copy(block, Folded, entry=inside, follows=False))
    coda = Entry(lambda state, _: looped.core_norm(state))
    return [*runs, sharing_copy(looped.coda[0], Folded, entry=coda, follows=False)]
