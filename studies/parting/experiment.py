"""The comparisons: which block is named, and what grafts leave unexplained, for changes that are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import bathyscope
from bathyscope import Model
from bathyscope.extend.prompts import Prompts, tokenized
from studies.parting.copies import int8_copy, trained_copy

Comparison = Callable[[], Any]
"""Gives what ``bathyscope.diff`` returns."""
BLOCKS: Final = (0, 5, 11)
STEPS, RATE, BATCH = 10, 3e-4, 4
"""Of the trainings of known changes."""
_CURVES: Final = ("drift", "graft", "graft_back", "cumulative", "cumulative_back")
_DIGITS: Final = 6
_PARTED: Final = 5
"""Tokens at which the predictions differ most that are stored."""


def known_changes(
    model: str, seeds: Sequence[int], prompts: str, blocks: Sequence[int] = BLOCKS
) -> dict[str, Comparison]:
    """Return comparisons of a model with copies that are changed in a known way, by name.

    Args:
        model: a checkpoint of at least as many blocks as are trained.
        seeds: of the trainings.
        prompts: a source of prompts that the models are compared on.
        blocks: that are trained, each alone.
    """
    whole = bathyscope.load(model, dtype="float32")
    read = tokenized(whole, prompts)

    def against(other: Callable[[], Model]) -> Comparison:
        return lambda: bathyscope.diff(whole, other(), read)

    def trained(block: int | None, seed: int) -> Model:
        texts = training_texts(whole, seed)
        return trained_copy(whole, texts, block=block, steps=STEPS, rate=RATE, batch=BATCH, seed=seed)

    comparisons = {"itself": against(partial(bathyscope.load, model, dtype="float32"))}
    for seed in seeds:
        for block in blocks:
            comparisons[f"block {block}, seed {seed}"] = against(partial(trained, block, seed))
        comparisons[f"all blocks, seed {seed}"] = against(partial(trained, None, seed))
    comparisons["int8"] = against(partial(int8_copy, whole))
    comparisons["bfloat16"] = against(partial(bathyscope.load, model, dtype="bfloat16"))
    return comparisons


def fine_tuned(
    model: str, gsm8k: Path, seeds: Sequence[int], *, steps: int, compared: int, tokens: int
) -> dict[str, Comparison]:
    """Return comparisons of a real model with itself after a short training on GSM8K, by name.

    Args:
        gsm8k: folder with ``train.jsonl`` and ``test_first600.jsonl``.
        steps: of the training, with one question and answer each.
        compared: test questions that the models are compared on.
        tokens: of each text, at most.
    """
    whole = bathyscope.load(model, dtype="float32")

    def against(place: int, seed: int) -> Any:
        texts = [ids[:tokens] for ids in _gsm8k_ids(whole, gsm8k / "train.jsonl", steps * len(seeds))]
        read = [ids[:tokens] for ids in _gsm8k_ids(whole, gsm8k / "test_first600.jsonl", compared)]
        own = texts[place :: len(seeds)]
        other = trained_copy(whole, own, block=None, steps=steps, rate=2e-5, batch=1, seed=seed)
        return bathyscope.diff(whole, other, read)

    return {f"gsm8k, seed {seed}": partial(against, place, seed) for place, seed in enumerate(seeds)}


def record_of(result: Any) -> dict[str, Any]:
    """Return the numbers of a comparison that are stored, with few digits."""
    data = result.data
    means = {
        f"{name}_{end}": _rounded(data[f"{name}_{end}"].values) for name in _CURVES for end in ("mean", "low", "high")
    }
    single = {
        name: [_rounded(data[f"{name}_{end}"].values) for end in ("mean", "low", "high")]
        for name in ("output", "unexplained", "unexplained_back")
    }
    return {
        "model": Path(data.attrs["model"]).name,
        "other": Path(data.attrs["other"]).name,
        "prompts": data.sizes["prompt"],
        "text": result.text,
        "first": result.first,
        "largest_graft": int(data["graft_mean"].values.argmax()),
        **means,
        **single,
        "noise_floor": _rounded(data["noise_floor"].values.max(0)),
        "weight_change": _rounded(data["weight_change"].values),
        "tokens": result.record()["tokens"][:_PARTED],
    }


def training_texts(model: Model, seed: int) -> list[tuple[int, ...]]:
    """Return the problems that copies are trained on, as token ids."""
    return _ids(model, "problems:64?steps=1-3", seed=100 + seed)


def _ids(model: Model, source: str, *, seed: int) -> list[tuple[int, ...]]:
    return _read(tokenized(model, source, seed=seed))


def _read(prompts: Prompts) -> list[tuple[int, ...]]:
    return [tuple(prompt.ids) for prompt in prompts]


def _gsm8k_ids(model: Model, path: Path, count: int) -> list[tuple[int, ...]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:count]]
    return _read(tokenized(model, [f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows]))


def _rounded(values: np.ndarray) -> Any:
    numbers = np.vectorize(lambda value: float(f"{value:.{_DIGITS}g}"), otypes=[float])(np.asarray(values))
    return [None if number != number else number for number in numbers.tolist()] if numbers.ndim else float(numbers)
