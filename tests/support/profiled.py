"""Made-up runs with everything that a depth profile shows, from the numbers that it should show."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from support.kept import ramps
from support.synthetic import plain_run

from bathyscope.runs.run import Run

SETTINGS: Mapping[str, Mapping[str, Any]] = {"lens": {}, "skip": {}, "drop": {}}


_MODELS = itertools.count()


def profiled_run(
    n_blocks: int = 6,
    *,
    prompts: int = 5,
    readable: float = 3.0,
    last: float = 0.7,
    effects: Sequence[float] | None = None,
    costs: Sequence[float] | None = None,
    spread: float = 0.1,
    measures: Sequence[str] = ("lens", "skip", "drop"),
    controls: Mapping[str, Run] | None = None,
    old: bool = False,
    model: str = "example/model",
    dataset: str = "gsm8k:5",
) -> Run:
    """A run with these numbers as means over prompts.

    Args:
        readable: mean prediction depth, and from where half of the tokens keep their prediction (L − ½ at most).
        last: share of tokens that are final before the last block.
        effects: of leaving out each block on the output; None = all the same.
        costs: loss added without each block; None = 2 for the first, 0.05 for the others.
        spread: how far prompts lie apart.
        measures: which of lens, skip and drop there are.
        old: an earlier version wrote the run, which did not store the share of tokens that keep their prediction.
    """
    around = np.linspace(-spread, spread, prompts) if prompts > 1 else np.zeros(1)
    coords = {
        "prompt_id": ("prompt", np.array([f"p{n}" for n in range(prompts)], dtype=object)),
        "n_tokens": ("prompt", np.full(prompts, 20)),
    }
    share = np.linspace(0, last, n_blocks) if n_blocks > 1 else np.zeros(1)
    agreement = np.clip(share + around[:, None] * share * (1 - share), 0, 1)
    agreement = np.concatenate([agreement, np.ones((prompts, 1))], axis=1)
    lens = xr.Dataset(
        {
            "prediction_depth": ("prompt", readable + around),
            "top1_agreement": (("prompt", "boundary"), agreement),
            "top1_kept": (("prompt", "boundary"), ramps(readable + around, n_blocks)),
        },
        {"boundary": range(n_blocks + 1), **coords},
    )
    lens = lens.drop_vars("top1_kept") if old else lens
    effect = np.ones(n_blocks) if effects is None else np.asarray(effects, dtype=float)
    output = np.tile(effect, (prompts, 1))[:, None, None]
    skip = xr.Dataset(
        {"output_all": (("prompt", "part", "reduction", "skipped"), output)},
        {"part": ["block"], "reduction": ["mean"], "skipped": range(n_blocks), **coords},
    )
    added = np.array([2.0] + [0.05] * (n_blocks - 1)) if costs is None else np.asarray(costs, dtype=float)
    drop = xr.Dataset(
        {
            "loss": (("prompt", "dropped"), 3.0 + added + 0.01 * around[:, None]),
            "baseline_loss": ("prompt", [3.0] * prompts),
        },
        {"dropped": range(n_blocks), **coords},
    )
    drop["loss"].attrs["units"] = "nats"
    datasets = {name: data for name, data in (("lens", lens), ("skip", skip), ("drop", drop)) if name in measures}
    run = plain_run(datasets, {name: SETTINGS[name] for name in datasets}, controls)
    # each of them is a model of its own, as controls of several seeds are
    weights = f"{next(_MODELS):064x}"
    run.manifest["identity"] |= {"model": model, "dataset": dataset, "n_blocks": n_blocks, "weight_hash": weights}
    return run
