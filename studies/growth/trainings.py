"""The trainings: a model of 6 blocks, the same grown to 8 by its middle blocks, and 8 blocks from nothing.

A grown model begins with each of the middle blocks twice in a row, as a schedule runs them, and is trained on. The one
of 8 blocks from nothing takes as many steps as both halves of the grown one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bathyscope_lab.recipe import Recipe
from bathyscope_lab.train import train

import bathyscope

SMALL_BLOCKS: Final = 6
FIRST, LENGTH = 2, 2
"""The blocks that are doubled, each twice in a row: the middle of six."""
ORIGINALS: Final = tuple(range(FIRST, FIRST + 2 * LENGTH, 2))
COPIES: Final = tuple(range(FIRST + 1, FIRST + 2 * LENGTH, 2))
"""Blocks of the grown model that are new: each runs behind the block that it was copied from."""
GROWN_BLOCKS: Final = SMALL_BLOCKS + LENGTH
_KEPT_SHARES: Final = (0.0, 0.01, 0.02, 0.04, 0.07, 0.11, 0.17, 0.25, 0.35, 0.5, 0.65, 0.8, 1.0)
"""Shares of a training after which its weights stay as a checkpoint: dense where most changes."""


@dataclass(frozen=True)
class Trainings:
    """Folders of one seed's trainings.

    Args:
        small: the model of 6 blocks.
        grown: the model of 8 blocks that was trained on from it.
        start: the grown model before its training.
        scratch: the model of 8 blocks from nothing; None where it was not wanted.
    """

    small: Path
    grown: Path
    start: Path
    scratch: Path | None


def kept_steps(steps: int) -> list[int]:
    """Return the steps of a training whose weights are checkpoints."""
    return sorted({round(share * steps) for share in _KEPT_SHARES})


def train_models(folder: Path, seed: int, steps: int, *, yardstick: bool = True, progress: bool = True) -> Trainings:
    """Train the three models of one seed; what is finished is not trained again.

    Args:
        folder: of the trainings.
        seed: of weights and data.
        steps: before the growth, and as many after it.
        yardstick: also train the model from nothing.
    """
    small, start, grown, scratch = (folder / f"{name}_{seed}" for name in ("small", "start", "grown", "scratch"))
    train(_recipe(f"small_{seed}", seed, steps, model=_shape(SMALL_BLOCKS)), small, progress=progress)
    if not start.exists():
        bathyscope.export(small, f"repeat:{FIRST}+{LENGTH}", start)
    # Other data than the first half has seen, as a training that simply goes on would read.
    train(_recipe(f"grown_{seed}", 1000 + seed, steps, base=str(start)), grown, progress=progress)
    if yardstick:
        train(_recipe(f"scratch_{seed}", seed, 2 * steps, model=_shape(GROWN_BLOCKS)), scratch, progress=progress)
    return Trainings(small, grown, start, scratch if yardstick else None)


def _shape(blocks: int) -> dict[str, Any]:
    return {
        "type": "llama",
        "hidden_size": 64,
        "intermediate_size": 176,
        "num_hidden_layers": blocks,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    }


def _recipe(name: str, seed: int, steps: int, **origin: Any) -> Recipe:
    """Return a recipe on generated word problems: a new model has a tokenizer of its own."""
    is_new = "model" in origin
    return Recipe.from_dict(
        {
            "name": name,
            "seed": seed,
            "threads": 1,
            "data": {"mix": {"generated": 1.0}, "tokens": 1_000_000, "tokenizer_characters": 500_000},
            **({"tokenizer": {"type": "bpe", "vocabulary": 512}, "scaled_writes": True} if is_new else {}),
            "stages": [{"context": 128, "batch": 8}],
            "budget": {"steps": steps},
            "optimisation": {"learning_rate": 0.003, "schedule": "plateau", "warmup_steps": 50, "decay": 0.3},
            "evaluation": {"every": 400, "tokens": 4096, "final_tokens": 16384},
            "saving": {"every": 200, "keep": kept_steps(steps)},
            **{{"base": "from"}.get(key, key): value for key, value in origin.items()},
        }
    )
