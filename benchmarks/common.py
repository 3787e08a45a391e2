"""What the benchmarks share: a model of 24 blocks × width 256, prompts, timing, and the matrix rate."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# large pages for tensors, as the command line sets it: for both sides of every ratio
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bathyscope.model import Model, load

LENGTHS = (190, 200, 210)


@dataclass(frozen=True)
class LlamaSizes:
    """Sizes of a Llama."""

    blocks: int
    width: int
    inner: int
    heads: int
    key_heads: int
    vocabulary: int

    def build(self, **settings: Any) -> LlamaForCausalLM:
        """Build one with random weights, always the same; ``settings`` go into its configuration."""
        config = LlamaConfig(
            num_hidden_layers=self.blocks,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_heads,
            vocab_size=self.vocabulary,
            **{"max_position_embeddings": 1024, "tie_word_embeddings": False, **settings},
        )
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


@dataclass(frozen=True)
class Setting:
    """Sizes of a benchmark model."""

    blocks: int = 24
    width: int = 256
    vocabulary: int = 4096
    heads: int = 4
    mlp: int = 688

    def model(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Model:
        """A random Llama of this size."""
        sizes = LlamaSizes(self.blocks, self.width, self.mlp, self.heads, self.heads, self.vocabulary)
        return load(sizes.build(initializer_range=0.05).to(dtype=dtype, device=device))

    @property
    def block_flops(self) -> float:
        """Multiply-adds × 2 of one block's matrices for one token."""
        return 2.0 * (4 * self.width * self.width + 3 * self.width * self.mlp)

    def attention_flops(self, queries: float, keys: float) -> float:
        """Scores and weighted sum of one block for ``queries`` tokens that see ``keys`` tokens on average."""
        return 4.0 * queries * keys * self.width

    @property
    def readout_flops(self) -> float:
        """One token's unembedding."""
        return 2.0 * self.width * self.vocabulary


def prompts(setting: Setting, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    """Random token ids."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, setting.vocabulary, (n,), generator=generator).tolist() for n in lengths]


def timed(*runs: Callable[[], object], repeats: int = 3, device: str = "cpu") -> list[float]:
    """Shortest wall time of each run, in seconds; they take turns, so that a busy machine is unfair to none."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            began = time.perf_counter()
            run()
            if device == "cuda":
                torch.cuda.synchronize()
            best[index] = min(best[index], time.perf_counter() - began)
    return best


class Floor:
    """What the least number of FLOPs costs on this machine, measured in turn with the runs it is compared with.

    The rate moves by a third within minutes, so that it is taken at the same time, and for about a second at a
    stretch, since a burst of milliseconds reaches what no run of seconds can. Two rates: of the blocks' matrix
    products alone, and of the model's own plain pass over as many tokens, which adds what its norms, rotations,
    softmax and activations cost and which no engine that calls the model's own blocks can beat by much.
    """

    TOKENS = 4800
    SECONDS = 1.0

    def __init__(self, setting: Setting, model: Model, length: int, device: str = "cpu", backward: bool = False):
        """Args: ``length`` of the plain pass's prompts; ``backward`` adds gradients with respect to its input."""
        shapes = [(setting.width, setting.width)] * 4
        shapes += [(setting.mlp, setting.width)] * 2 + [(setting.width, setting.mlp)]
        self._inputs = {n: torch.randn(self.TOKENS, n, device=device) for n in (setting.width, setting.mlp)}
        self._weights = [torch.randn(shape, device=device) for _ in range(setting.blocks) for shape in shapes]
        self._product_flops = self.TOKENS * setting.block_flops * setting.blocks
        rows = self.TOKENS // length
        own = length * setting.block_flops * (2 if backward else 1)
        own += setting.attention_flops(length, length / 2) * (3 if backward else 1)
        self._pass_flops = rows * setting.blocks * own
        self._model, self._backward = model.hf.base_model, backward
        for weight in model.hf.parameters():
            weight.requires_grad_(False)
        self._given = model.hf.get_input_embeddings()(torch.randint(3, setting.vocabulary, (rows, length)).to(device))
        self._times = [self._count(once, device) for once in (self._products, self._pass)]

    def _products(self) -> None:
        for weight in self._weights:
            torch.nn.functional.linear(self._inputs[weight.shape[1]], weight)

    def _pass(self) -> None:
        with torch.set_grad_enabled(self._backward):
            given = self._given.detach().requires_grad_(self._backward)
            last = self._model(inputs_embeds=given, use_cache=False).last_hidden_state
            if self._backward:
                torch.autograd.grad(last.sum(), given)

    def _count(self, once: Callable[[], None], device: str) -> int:
        once()
        return max(1, round(self.SECONDS / timed(once, repeats=1, device=device)[0]))

    @property
    def runs(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """The products alone and the plain passes, each about a second, to be timed with the others."""

        def products() -> None:
            for _ in range(self._times[0]):
                self._products()

        def passes() -> None:
            for _ in range(self._times[1]):
                self._pass()

        return products, passes

    def compared(self, flops: float, seconds: float, products: float, passes: float) -> dict[str, float]:
        """A run of ``flops`` and ``seconds`` against both rates; ``products``, ``passes``: seconds of ``runs``."""
        rate = self._times[0] * self._product_flops / products
        pass_rate = self._times[1] * self._pass_flops / passes
        return {
            "floor_s": flops / rate,
            "over_products": seconds / (flops / rate),
            "over_plain_pass": seconds / (flops / pass_rate),
            "gflops": rate / 1e9,
        }


def arguments(description: str) -> argparse.Namespace:
    """Flags that every benchmark takes; sets the number of threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=24)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    return given


def row(name: str, **values: float | str) -> None:
    """One line of a benchmark's table."""
    shown = "   ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items())
    print(f"{name:<42} {shown}", flush=True)
