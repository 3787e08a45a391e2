"""What a looped model costs next to the same model with a module for every run, in rounds side by side.

``python -m benchmarks.looped_speed`` takes about two minutes on a quiet machine. Both sides survey the same prompts
with the same measures. The norm between loops of the second pair is computed by the model's own forward on the looped
side, and by a module on the other. Times are those of the processor, which other programs change little.
"""

from __future__ import annotations

import copy
import time
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

import bathyscope

BLOCKS, LOOPS, TOKENS, ROUNDS = 3, 4, 96, 3
MEASURES = ["residual", "lens", "skip", "drop"]


class Normed(LlamaDecoderLayer):
    """A block that norms what it is given."""

    entry: nn.Module

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:  # type: ignore[override]
        return super().forward(self.entry(hidden_states), **kwargs)


class Stack(PreTrainedModel):
    """A stack of Llama's blocks; its forward runs ``loops`` times over ``runs``, with or without a norm between."""

    config_class = LlamaConfig
    _supports_sdpa = True

    def __init__(self, config: LlamaConfig, loops: int, normed: bool) -> None:
        super().__init__(config)
        self.loops, self.normed = loops, normed
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.runs = nn.ModuleList(LlamaDecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size)
        self.rotary = LlamaRotaryEmbedding(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        stream = self.embed(input_ids)
        positions = torch.arange(input_ids.shape[1])[None]
        tables = self.rotary(stream, positions)
        for loop in range(self.loops):
            stream = self.norm(stream) if self.normed and loop else stream
            for run in self.runs:
                stream = run(stream, position_ids=positions, position_embeddings=tables)
        return CausalLMOutput(logits=self.lm_head(self.norm(stream)))


def build(normed: bool) -> tuple[Stack, Stack]:
    """Return a looped stack, and the same with a module for every run."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "attn_implementation": "sdpa",
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_attention_heads": 4,
        "vocab_size": 2048,
    }
    config = LlamaConfig(num_hidden_layers=BLOCKS, **sizes)
    config.__dict__["model_type"] = "benchmark_stack"
    looped = Stack(config, LOOPS, normed).eval()
    unrolled = copy.copy(looped)
    unrolled._modules = dict(looped._modules)
    unrolled.loops, unrolled.normed = 1, False
    runs = []
    for loop in range(LOOPS):
        for index, block in enumerate(looped.runs):
            run = copy.deepcopy(block, {id(weight): weight for weight in block.parameters()})
            if normed and loop and index == 0:
                run.__class__ = Normed
                # a module of its own, since the search names a module by its first place
                run.entry = copy.deepcopy(looped.norm, {id(weight): weight for weight in looped.norm.parameters()})
            runs.append(run)
    unrolled.runs = nn.ModuleList(runs)
    return looped, unrolled


def seconds(hf: PreTrainedModel, prompts: list[list[int]]) -> float:
    """Return the processor's seconds for a survey of a loaded model."""
    model = bathyscope.load(hf)
    began = time.process_time()
    bathyscope.survey(model, prompts, MEASURES, progress=False)
    return time.process_time() - began


def main() -> None:
    """Print the medians of both sides, and their ratio."""
    draw = torch.Generator().manual_seed(0)
    prompts = torch.randint(0, 2048, (2, TOKENS), generator=draw).tolist()
    for normed in (False, True):
        looped, unrolled = build(normed)
        rounds = [(seconds(looped, prompts), seconds(unrolled, prompts)) for _ in range(ROUNDS)]
        first, second = (median(side) for side in zip(*rounds))
        kind = "a norm between loops" if normed else "nothing between loops"
        ratio = f"{first / second:.2f} times"
        print(f"{LOOPS} loops of {BLOCKS}, {kind}: looped {first:.2f} s, unrolled {second:.2f} s, {ratio}")


if __name__ == "__main__":
    main()
