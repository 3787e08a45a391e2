"""Small invented runs for the store's tests: every type, NaN, infinities, text, prompts of unequal length."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

BLOCKS = 6


def identity(prompts: int = 6, batch: int = 2, **changes: Any) -> dict[str, Any]:
    """A run's configuration; ``changes`` replace fields."""
    return {
        "model": "tiny/llama",
        "revision": "0123abc",
        "weight_hash": "w" * 64,
        "tokenizer_hash": "t" * 64,
        "prompt_hash": "p" * 64,
        "dataset": f"stories:{prompts}",
        "prompts": prompts,
        "measures": {"skip": {"parts": ("block",), "protect_first": 1, "positions": None}, "lens": {"k": 5}},
        "dtype": "float32",
        "attention": "sdpa",
        "device": "cpu",
        "seed": 0,
        "preset": None,
        "batch_tokens": 1600,
        "plan": [(first, min(first + batch, prompts)) for first in range(0, prompts, batch)],
        "noise": {"control": "every batch"},
        "n_blocks": BLOCKS,
        "config_hash": None,
        "keep_text": True,
        **changes,
    }


def shard(first: int, last: int) -> dict[str, xr.Dataset]:
    """Measures of prompts ``first`` to ``last`` - 1; its values do not depend on how prompts are cut."""
    count, tokens = last - first, max(length(p) for p in range(first, last))
    skip = xr.Dataset(
        {
            "effect_all": (
                ("prompt", "part", "skipped", "block"),
                np.stack([_effect(p) for p in range(first, last)])[:, None],
                {
                    "long_name": "effect of a skipped block",
                    "units": "1",
                    "source": "csordas2025, layer skipping",
                    "level": 0.95,
                },
            ),
            "output_all": (
                ("prompt", "part", "skipped"),
                np.stack([_effect(p)[:, 0] for p in range(first, last)])[:, None],
            ),
            "crossed": (("prompt",), np.array([p % 3 == 0 for p in range(first, last)])),
            "index": (("prompt",), 2**62 + np.arange(first, last)),
        },
        coords={
            "part": ["block"],
            "skipped": np.arange(BLOCKS),
            "block": np.arange(BLOCKS),
            **_prompt_coordinates(first, last),
        },
        attrs={"measure": "skip"},
    )
    surprise = np.full((count, tokens), np.nan, np.float32)
    strings = np.full((count, tokens), "", "<U9")
    for row, p in enumerate(range(first, last)):
        surprise[row, : length(p)] = np.random.default_rng(100 + p).normal(size=length(p))
        strings[row, : length(p)] = [f"é{i}" for i in range(length(p))]
    erasure = xr.Dataset(
        {
            "effect": (("prompt", "token"), surprise),
            "total": ((), surprise[:, 0].sum(dtype=np.float64), {"merge": "sum"}),
        },
        coords={
            "token": np.arange(tokens),
            "token_string": (("prompt", "token"), strings),
            **_prompt_coordinates(first, last),
        },
    )
    return {"skip": skip, "erasure": erasure}


def summary(merged: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Run-level results: sums over the prompts, whose bits show any slip in order or merging."""
    effect = merged["skip"]["effect_all"]
    depth = effect.mean(["prompt", "part", "skipped"]).values[:2]
    return {
        "effective_depth": xr.Dataset(
            {
                "depth": ("estimator", depth, {"units": "blocks"}),
                "index": ("estimator", depth),
                "reason": ("estimator", ["", "no crossing"]),
            },
            coords={"estimator": ["cosine", "kl"]},
        ),
        "noise": xr.Dataset({"floor": ("measure", np.array([1.25e-7, 0.0]))}, coords={"measure": ["skip", "drop"]}),
    }


def small_shard(first: int, last: int) -> dict[str, xr.Dataset]:
    """One padded measure and one partial sum: enough for tests that write many runs."""
    whole = shard(first, last)["erasure"]
    return {"erasure": whole[["effect", "total"]].drop_vars(list(whole.coords))}


def small_summary(merged: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Run-level results of :func:`small_shard`."""
    return {"depth": xr.Dataset({"mean": merged["erasure"]["effect"].mean("prompt")})}


def length(prompt: int) -> int:
    """Number of tokens of a prompt."""
    return 3 + (prompt * 7) % 5


def bits(dataset: xr.Dataset) -> dict[str, tuple[Any, ...]]:
    """All that must be equal between two datasets: dimensions, types, bytes, order, attributes."""
    return {
        str(name): (
            variable.dims,
            variable.dtype.str,
            variable.shape,
            variable.values.tobytes(),
            variable.attrs,
        )
        for name, variable in dataset.variables.items()
    } | {"": (list(dataset.data_vars), list(dataset.coords), dataset.attrs)}


def _effect(prompt: int) -> np.ndarray:
    effect = np.random.default_rng(prompt).lognormal(size=(BLOCKS, BLOCKS)).astype(np.float32)
    effect[np.tril_indices(BLOCKS)] = np.nan
    effect[0, 1:3] = -0.0, np.inf
    return effect


def _prompt_coordinates(first: int, last: int) -> dict[str, Any]:
    prompts = range(first, last)
    return {
        "prompt_id": ("prompt", [f"story-{p}" for p in prompts]),
        "n_tokens": ("prompt", np.array([length(p) for p in prompts])),
        "dataset": ("prompt", ["stories"] * len(prompts)),
    }
