"""Looped models of ``support.looped`` written out by hand: a module for every run, with what stands before it inside.

They are ordinary models with one list of blocks, of which each runs once, and share all weights with the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from support.looped import WIDTH, Looped, LoopedConfig
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.hrm_text.modeling_hrm_text import HrmTextDecoderLayer
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


class FirstNorm(nn.Module):
    """The final norm of the first of several streams."""

    def __init__(self, norm: nn.Module, width: int) -> None:
        super().__init__()
        self.norm, self.width = norm, width

    def forward(self, folded: Tensor) -> Tensor:
        return self.norm(folded[..., : self.width])


class Slotted:
    """A block on a stream and what earlier runs gave; ``entry`` makes its input of these and of the embedding.

    A slot follows the stream until its run is over.
    """

    number: int
    slots: tuple[int, ...]
    entry: Callable[[dict[int, Tensor], Tensor], Tensor]

    def forward(self, hidden_states: Tensor, embedded: Tensor, **kwargs: Any) -> Tensor:
        streams = hidden_states.chunk(1 + len(self.slots), dim=-1)
        outputs = dict(zip((self.number - 1, *self.slots), streams))
        out = super().forward(self.entry(outputs, embedded), **kwargs)  # type: ignore[misc]
        followed = [out if slot >= self.number else outputs[slot] for slot in self.slots]
        return torch.cat([out, *followed], dim=-1)


class SlottedLlama(Slotted, LlamaDecoderLayer):
    """A block of Llama on several streams."""


class SlottedHrm(Slotted, HrmTextDecoderLayer):
    """A block of HRM on several streams."""


class Unrolled(PreTrainedModel):
    """A looped model with a module for every run.

    Args:
        parts: modules that it shares with the loop, by name: ``embed``, ``rotary``, ``lm_head``.
        embed: makes the first block's input from the embedding.
        gives_embedding: every run is given the embedding.
    """

    config_class = UnrolledConfig
    _supports_sdpa = True

    def __init__(
        self,
        config: Any,
        parts: dict[str, nn.Module],
        runs: list[nn.Module],
        norm: nn.Module,
        embed: Callable[[Tensor], Tensor] = lambda h: h,
        gives_embedding: bool = False,
    ) -> None:
        super().__init__(UnrolledConfig(**config.to_diff_dict() | {"attn_implementation": "sdpa"}))
        for name, module in parts.items():
            setattr(self, name, module)
        self.norm, self.runs, self.entering = norm, nn.ModuleList(runs), embed
        self.gives_embedding = gives_embedding

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        embedded = self.embed(input_ids)
        stream = self.entering(embedded)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(stream, positions)
        more = {"embedded": embedded} if self.gives_embedding else {}
        for run in self.runs:
            stream = run(stream, attention_mask=None, position_ids=positions, position_embeddings=tables, **more)
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
    parts: dict[str, Any] = {"attention": None, "mlp": None}
    if name == "hrm_text":
        model = _hrm(looped)
    elif name == "recursion":
        model = _recursion(looped)
    elif name == "huginn_still":
        runs, norm = _core(looped, looped.config.loops), FirstNorm(looped.norm, WIDTH)
        model = Unrolled(looped.config, shared(looped), runs, norm, lambda h: torch.cat([h, h], dim=-1))
    else:
        runs = []
        for loop in range(looped.config.loops):
            for index, block in enumerate(looped.layers):
                entry = {"ouro": lambda _: looped.norm, "coordinates": lambda loop: Shift(looped, loop)}.get(name)
                enters = entry is not None and index == 0 and loop > 0
                runs.append(sharing_copy(block, Entered, entry=entry(loop)) if enters else sharing_copy(block))  # type: ignore[misc]
        # the norm of Llama calls its argument so
        argument = "stream" if name == "coordinates" else "hidden_states"
        parts = {"others": (Site("entry", minus=argument),)}
        embed = Shift(looped, 0) if name == "coordinates" else (lambda h: h)
        model = Unrolled(looped.config, shared(looped), runs, looped.norm, embed)
    family = Family("unrolled", ("unrolled_test",), blocks="runs", final_norm="norm", **parts)
    return model.eval(), family


def shared(looped: Looped) -> dict[str, nn.Module]:
    """What a copy shares with its loop outside of the blocks."""
    return {"embed": looped.embed, "rotary": looped.rotary, "lm_head": looped.lm_head}


def _slotted(
    kind: type[nn.Module],
    blocks: list[nn.Module],
    slots: tuple[int, ...],
    entries: dict[int, Callable[[dict[int, Tensor], Tensor], Tensor]],
) -> list[nn.Module]:
    """One run after another of these blocks; those without an entry take the stream as it is."""

    def plain(number: int) -> Callable[[dict[int, Tensor], Tensor], Tensor]:
        return lambda outputs, _: outputs[number - 1]

    return [
        sharing_copy(block, kind, number=number, slots=slots, entry=entries.get(number) or plain(number))
        for number, block in enumerate(blocks)
    ]


def _hrm(looped: Any) -> Unrolled:
    """Two high cycles of two low cycles, in stacks of two blocks; the second low cycle begins anew in each.

    Low cycles take both states, of which the high one is first the embedding.
    """
    low, high, scale = looped.model.L_module, looped.model.H_module, looped.model.embedding_scale
    entries = {
        2: lambda outputs, embedded: low.final_norm(outputs[1]) + scale * embedded,
        4: lambda outputs, embedded: scale * embedded + low.final_norm(outputs[3]),
        6: lambda outputs, _: low.final_norm(outputs[3]) + high.final_norm(outputs[5]),
        8: lambda outputs, _: low.final_norm(outputs[7]) + high.final_norm(outputs[5]),
        10: lambda outputs, _: high.final_norm(outputs[5]) + low.final_norm(outputs[9]),
    }
    blocks = [*low.layers, *low.layers, *high.layers] * 2
    runs = _slotted(SlottedHrm, blocks, (3, 5), entries)
    parts = {"embed": looped.model.embed_tokens, "rotary": looped.model.rotary_emb, "lm_head": looped.lm_head}
    return Unrolled(
        looped.config,
        parts,
        runs,
        FirstNorm(high.final_norm, WIDTH),
        lambda h: torch.cat([scale * h + looped.model.z_L_init] * 3, dim=-1),
        gives_embedding=True,
    )


def _recursion(looped: Any) -> Unrolled:
    """Three turns of two blocks that are weighted by the gate, and one that is read out as it is."""

    def weigh(before: Tensor, after: Tensor) -> Tensor:
        return before + looped.router(before).sigmoid() * (after - before)

    entries = {
        2: lambda outputs, embedded: weigh(embedded, outputs[1]),
        4: lambda outputs, embedded: weigh(weigh(embedded, outputs[1]), outputs[3]),
        6: lambda outputs, embedded: weigh(weigh(weigh(embedded, outputs[1]), outputs[3]), outputs[5]),
    }
    runs = _slotted(SlottedLlama, [*looped.layers] * 4, (1, 3), entries)
    norm = FirstNorm(looped.norm, WIDTH)
    return Unrolled(
        looped.config, shared(looped), runs, norm, lambda h: torch.cat([h] * 3, dim=-1), gives_embedding=True
    )


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
