"""Stages of a made-up run: cut for real from made-up signatures."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.measures.stages import Stages, StagesOptions

PREVIOUS = ("prompt", "block")


def stages(groups: Mapping[str, xr.Dataset], **options: Any) -> xr.Dataset:
    """The stages of a run's other results; few resamples, since nobody reads them."""
    n_blocks = groups["residual"].sizes["block"]
    chosen = StagesOptions(**{"resamples": 60, **options})
    facts: Any = SimpleNamespace(n_blocks=n_blocks, anatomy=SimpleNamespace(cycle=None))
    return Stages(chosen).derive(facts, groups, seed=0)


def planted(edges: tuple[int, ...], n_blocks: int, prompts: int, noise: float, seed: int = 0) -> dict[str, xr.Dataset]:
    """Results of which each signature is level between ``edges``, with prompts and blocks that scatter about it."""
    rng = np.random.default_rng(seed)
    levels = np.random.default_rng(99).normal(0, 1, (7, len(edges) + 1))
    stage = np.searchsorted(edges, np.arange(n_blocks), side="right")

    def drawn(row: int) -> np.ndarray:
        own = rng.normal(0, 0.2, (prompts, 1))
        return np.asarray(levels[row, stage] + own + rng.normal(0, noise, (prompts, n_blocks)))

    def entered(row: int) -> np.ndarray:
        return np.concatenate([np.zeros((prompts, 1)), drawn(row)], axis=1)

    block, boundary = np.arange(n_blocks), np.arange(n_blocks + 1)
    fixed = {name: ("block", levels[row, stage]) for row, name in ((2, "prediction"), (3, "suppression"))}
    lens = {"entropy": (("prompt", "boundary"), entered(4)), "kl_lens_final": (("prompt", "boundary"), entered(5))}
    return {
        "drop": xr.Dataset({"kl": (("prompt", "dropped"), np.exp(drawn(0)))}, {"dropped": block}),
        "attention_locality": xr.Dataset({"total_prev5": (PREVIOUS, drawn(1))}, {"block": block}),
        "neurons": xr.Dataset({f"{name}_fraction": one for name, one in fixed.items()}, {"block": block}),
        "lens": xr.Dataset(lens, {"boundary": boundary}),
        "residual": xr.Dataset({"norm_mlp_rest": (PREVIOUS, np.exp(drawn(6)))}, {"block": block}),
    }
