"""Look-alikes of looped models, built from what is published of their structure, on the blocks of Llama.

Every model is tiny and random. ``LOOPED`` makes each by name; ``REFUSED`` those that have no common depth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from support.zoo.entry import randomise
from torch import Tensor, nn
from transformers import HrmTextConfig, HrmTextForCausalLM, LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

WIDTH, VOCABULARY = 32, 61


def settings(**changes: Any) -> dict[str, Any]:
    """The shape of all look-alikes."""
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48, "max_position_embeddings": 64}
    return {**sizes, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, **changes}


class LoopedConfig(LlamaConfig):
    """The configuration of Llama, under a type that no table has."""

    model_type = "looped_test"
    loops: int = 3


class Looped(PreTrainedModel):
    """Token ids in, logits out: all blocks run ``loops`` times, with nothing between the loops."""

    config_class = LoopedConfig
    base_model_prefix = "model"
    _supports_sdpa = True

    def __init__(self, config: LoopedConfig) -> None:
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = LlamaRotaryEmbedding(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.add_modules(config)

    def add_modules(self, config: LoopedConfig) -> None:
        """Add what a kind of loop has of its own."""

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        embedded = self.embed(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(embedded, positions)

        def stack(stream: Tensor, layers: nn.ModuleList = self.layers, first: int = 0) -> Tensor:
            for layer in layers:
                stream = layer(stream, attention_mask=None, position_ids=positions, position_embeddings=tables)
            return stream

        return CausalLMOutput(logits=self.read(self.run(embedded, stack)))

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        """Run the loops."""
        for _ in range(self.config.loops):
            embedded = stack(embedded)
        return embedded

    def read(self, stream: Tensor) -> Tensor:
        """Return the logits of the last stream."""
        return self.lm_head(self.norm(stream))


class OuroLike(Looped):
    """Ouro: the final norm stands behind every loop, and a gate, which reads each loop, weights exits."""

    def add_modules(self, config: LoopedConfig) -> None:
        self.exit_gate = nn.Linear(config.hidden_size, 1)

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for loop in range(self.config.loops):
            embedded = stack(embedded if loop == 0 else self.norm(embedded))
            self.exit_gate(embedded)
        return embedded


class HuginnLike(Looped):
    """Huginn: a prelude, a core that takes its own state and the prelude's output, and a coda."""

    def add_modules(self, config: LoopedConfig) -> None:
        self.prelude = nn.ModuleList([LlamaDecoderLayer(config, 7)])
        self.coda = nn.ModuleList([LlamaDecoderLayer(config, 8)])
        self.adapter = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.core_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)

    def initialize_state(self, embedded: Tensor) -> Tensor:
        """Draw the state that the first loop begins with."""
        return torch.randn_like(embedded)

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        injected = stack(embedded, self.prelude)
        state = self.initialize_state(injected)
        for _ in range(self.config.loops):
            state = self.core_norm(stack(self.adapter(torch.cat([state, injected], dim=-1))))
        return stack(state, self.coda)


class StillHuginnLike(HuginnLike):
    """Huginn with an initial state of zeros."""

    def initialize_state(self, embedded: Tensor) -> Tensor:
        return torch.zeros_like(embedded)


class NanbeigeLike(Looped):
    """Nanbeige: the whole stack runs several times, each run with cache slots of its own."""

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        stream = self.embed(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(stream, positions)
        for loop in range(self.config.loops):
            for index, layer in enumerate(self.layers):
                slot = index + loop * len(self.layers)
                stream = layer(stream, position_ids=positions, position_embeddings=tables, cache_slot=slot)
        return CausalLMOutput(logits=self.read(stream))


class WeightedRecursion(Looped):
    """A mixture of recursions in which every token takes every turn, and a gate weights what a turn gives."""

    def add_modules(self, config: LoopedConfig) -> None:
        self.router = nn.Linear(config.hidden_size, 1)

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for _ in range(self.config.loops):
            embedded = embedded + self.router(embedded).sigmoid() * (stack(embedded) - embedded)
        # the last turn is read out as it is
        return stack(embedded)


class ChoosingRecursion(WeightedRecursion):
    """A mixture of recursions in which later turns run on the tokens that the gate chooses."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        stream = stack(embedded)
        chosen = self.router(stream).squeeze(-1).topk(max(1, stream.shape[1] // 2), dim=-1).indices.sort().values
        index = chosen[..., None].expand(-1, -1, stream.shape[-1])
        shortened = self.layers[0](
            stream.gather(1, index), position_ids=chosen, position_embeddings=self.rotary(stream, chosen)
        )
        return self.layers[1](
            stream.scatter(1, index, shortened),
            position_ids=torch.arange(stream.shape[1])[None],
            position_embeddings=self.rotary(stream, torch.arange(stream.shape[1])[None]),
        )


class HaltingLoop(Looped):
    """Loops until the stream has become long enough, which takes other numbers of loops for other prompts."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for _ in range(2 + int(embedded.shape[1] > 8)):
            embedded = stack(embedded)
        return embedded


class ConvergingLoop(Looped):
    """Ends its loops where every token has nearly stopped to move, which random tokens never do."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for _ in range(self.config.loops):
            before, embedded = embedded, stack(embedded)
            if bool(((embedded - before).norm(dim=-1) < 1e-3 * before.norm(dim=-1)).all()):
                break
        return embedded


class HaltingGate(WeightedRecursion):
    """Ends its loops where a gate is sure at every token, which it is of no random stream."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for _ in range(self.config.loops):
            embedded = stack(embedded)
            if bool((self.router(embedded) > 50).all()):
                break
        return embedded


class EndedTokens(WeightedRecursion):
    """A gate ends some tokens after each loop; they keep their stream while the others go on."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        active = torch.ones_like(embedded[..., :1], dtype=torch.bool)
        for _ in range(self.config.loops):
            active = active & (embedded @ self.router.weight.T > 0)
            embedded = torch.where(active, stack(embedded), embedded)
        # the last turn is read out as it is
        return stack(embedded)


class EndedRows(WeightedRecursion):
    """A gate that reads a prompt's first token ends whole prompts, which keep their stream while others go on."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        for _ in range(self.config.loops):
            embedded = torch.where(self.router(embedded[:, :1]) > 0, stack(embedded), embedded)
        # the last turn is read out as it is
        return stack(embedded)


class DroppedRows(WeightedRecursion):
    """The same, but prompts that are ended leave the batch."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        embedded = stack(embedded)
        for _ in range(self.config.loops - 1):
            active = (self.router(embedded[:, :1]) > 0)[:, 0, 0]
            if bool(active.any()):
                embedded = embedded.index_copy(0, active.nonzero()[:, 0], stack(embedded[active]))
        return stack(embedded)


class AveragedLoops(Looped):
    """Reads out the mean of what all loops give."""

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        total = torch.zeros_like(embedded)
        for _ in range(self.config.loops):
            embedded = stack(embedded)
            total = total + embedded
        return total / self.config.loops


class MaskedTurns(Looped):
    """Gives blocks of later loops a mask of the tokens that go on, computed from the stream."""

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        stream = self.embed(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        tables = self.rotary(stream, positions)
        for _ in range(self.config.loops):
            active = stream.mean(-1) > 0
            for layer in self.layers:
                stream = layer(stream, position_ids=positions, position_embeddings=tables, active=active)
        return CausalLMOutput(logits=self.read(stream))


class CoordinateLoop(Looped):
    """A universal transformer: an embedding of position and loop is added in front of every loop."""

    def add_modules(self, config: LoopedConfig) -> None:
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.time = nn.Embedding(config.loops, config.hidden_size)

    def run(self, embedded: Tensor, stack: Callable[..., Tensor]) -> Tensor:
        positions = self.position.weight[: embedded.shape[1]]
        for loop in range(self.config.loops):
            embedded = stack(embedded + positions + self.time.weight[loop])
        return embedded


def make(kind: type[Looped], seed: int = 0, **changes: Any) -> Looped:
    """A model of one kind with all weights drawn from ``seed``."""
    # biases of linear layers are moved by a draw, from where torch has drawn them
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(LoopedConfig(**settings(**changes), attn_implementation="sdpa")).eval()
    randomise(model, seed)
    return model


def hrm(seed: int = 0, **changes: Any) -> HrmTextForCausalLM:
    """A tiny model of transformers' ``hrm_text``: two stacks of two blocks, two high cycles of two low cycles."""
    cycles = {"H_cycles": 2, "L_cycles": 2, "L_bp_cycles": [2, 2], **changes}
    config = HrmTextConfig(**settings(head_dim=8), **cycles, initializer_range=0.5)
    model = HrmTextForCausalLM(config).eval()
    randomise(model, seed)
    return model


LOOPED: dict[str, Callable[[], PreTrainedModel]] = {
    "tied": lambda: make(Looped),
    "ouro": lambda: make(OuroLike),
    "nanbeige": lambda: make(NanbeigeLike),
    "coordinates": lambda: make(CoordinateLoop),
    "recursion": lambda: make(WeightedRecursion),
    "huginn_still": lambda: make(StillHuginnLike),
    "hrm_text": hrm,
}


def own_blocks(hf: Any) -> list[nn.Module]:
    """The blocks of a look-alike, in the order in which they are first called."""
    if hasattr(hf, "model"):
        return [*hf.model.L_module.layers, *hf.model.H_module.layers]
    return [*getattr(hf, "prelude", []), *hf.layers, *getattr(hf, "coda", [])]


@torch.no_grad()
def patched_logits(hf: Any, ids_BT: Tensor, steps: Collection[int]) -> Tensor:
    """Logits of the own forward in which calls of these numbers give what the call before gave."""
    outputs: list[Tensor] = []

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        outputs.append((outputs[-1] if outputs else args[0]) if len(outputs) in steps else output)
        return outputs[-1]

    hooks = [block.register_forward_hook(after) for block in own_blocks(hf)]
    try:
        return hf(input_ids=ids_BT, use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
