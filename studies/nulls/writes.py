"""What untrained models of SmolLM2's shape read where a recipe draws smaller writes.

    python -m studies.nulls.writes

The library draws every weight of this shape with one standard deviation. Many trainings begin with what each block
writes 1/√(2L) smaller. Both are surveyed on the same random tokens, and need no weights of the trained model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope

STORED: Final = Path(__file__).parent / "results" / "writes.json"
SHAPE: Final[dict[str, Any]] = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
}
"""As the configuration of SmolLM2-135M has it."""
SEEDS: Final = (0, 1, 2)
PROMPTS: Final = 2
LENGTH: Final = 32
READINGS: Final = ("readable", "own")
"""Blocks after which a token keeps its final prediction on average, and until 90 % of the effect on the output."""
_WRITES: Final = ("o_proj.weight", "down_proj.weight")
_DIGITS: Final = 4


def untrained(seed: int, *, scaled: bool, **changed: int) -> LlamaForCausalLM:
    """Return an untrained model.

    Args:
        scaled: what each block writes is drawn 1/√(2L) smaller.
        changed: entries of the shape.
    """
    config = LlamaConfig(**{**SHAPE, **changed})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).eval()
        if scaled:
            for name, weight in model.named_parameters():
                if name.endswith(_WRITES):
                    weight.mul_(1 / math.sqrt(2 * config.num_hidden_layers))
    return model


def random_tokens(vocabulary: int) -> list[list[int]]:
    """Return prompts of tokens that are drawn evenly, the same at every call."""
    drawn = np.random.default_rng(0).integers(vocabulary, size=(PROMPTS, LENGTH))
    return [[int(token) for token in ids] for ids in drawn]


def readings(model: LlamaForCausalLM, prompts: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the readings of a model's verdict, in blocks done."""
    run = bathyscope.survey(bathyscope.load(model), [list(ids) for ids in prompts], ["lens", "skip"], progress=False)
    return {name: round(float(getattr(run.verdict, name).value), _DIGITS) for name in READINGS}


def page_sentence(stored: Mapping[str, Any]) -> str:
    """Return what docs/experiments/untrained.md says of the stored results."""

    def spread(name: str, reading: str) -> str:
        values = [row[reading] for row in stored["blocks_done"][name]]
        return f"{min(values):.1f} to {max(values):.1f}"

    count, tokens, blocks = stored["prompts"], stored["tokens"], stored["shape"]["num_hidden_layers"]
    return (
        f"Of SmolLM2's shape ({blocks} blocks), on {count} prompts of {tokens} random tokens "
        "(`python -m studies.nulls.writes`), three models drawn\n"
        f"as the configuration says read *readable* {spread('configuration', 'readable')} and *own* "
        f"{spread('configuration', 'own')}, three whose blocks write\n"
        f"1/√(2L) smaller {spread('scaled', 'readable')} and {spread('scaled', 'own')}."
    )


def main() -> None:
    prompts = random_tokens(int(SHAPE["vocab_size"]))
    values: dict[str, list[dict[str, float]]] = {}
    for name, scaled in (("configuration", False), ("scaled", True)):
        values[name] = []
        for seed in SEEDS:
            values[name].append(readings(untrained(seed, scaled=scaled), prompts))
            print(name, seed, values[name][-1], flush=True)
    about = {"seeds": SEEDS, "prompts": PROMPTS, "tokens": LENGTH, "shape": SHAPE}
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps({**about, "blocks_done": values}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
