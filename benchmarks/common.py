"""What the benchmarks share: a model of 24 blocks × width 256, prompts, timing, and the matrix rate."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

# large pages for tensors, as the command line sets it: for both sides of every ratio
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from bathyscope.model import Model, load

LENGTHS = (190, 200, 210)


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
        torch.manual_seed(0)
        config = LlamaConfig(
            num_hidden_layers=self.blocks,
            hidden_size=self.width,
            intermediate_size=self.mlp,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            vocab_size=self.vocabulary,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
            initializer_range=0.05,
        )
        return load(LlamaForCausalLM(config).to(dtype=dtype, device=device).eval())

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


def matrix_rate(setting: Setting, tokens: int = 1600, dtype: torch.dtype = torch.float32, device: str = "cpu") -> float:
    """FLOP/s that this machine reaches on the block's own matrices, in this process."""
    x_ND = torch.randn(tokens, setting.width, dtype=dtype, device=device)
    x_NM = torch.randn(tokens, setting.mlp, dtype=dtype, device=device)
    square = torch.randn(setting.width, setting.width, dtype=dtype, device=device)
    up = torch.randn(setting.mlp, setting.width, dtype=dtype, device=device)
    down = torch.randn(setting.width, setting.mlp, dtype=dtype, device=device)

    def once() -> list[Tensor]:
        linear = torch.nn.functional.linear
        return [linear(x_ND, square) for _ in range(4)] + [
            linear(x_ND, up),
            linear(x_ND, up),
            linear(x_NM, down),
        ]

    once()
    return tokens * setting.block_flops / timed(once, repeats=20, device=device)[0]


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
