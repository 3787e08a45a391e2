"""Which blocks of a run are shown to be idle: their drop surely changes the loss by next to nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.prompts.parts import clusters_in
from bathyscope.runs.run import Run
from bathyscope.statistics.rare import FEWEST_PROMPTS, outward_mean_intervals
from bathyscope.statistics.sampling import Sampling

IDLE: Final = 0.01
"""Nats: a block whose drop costs surely less than this, and surely gains less, is idle."""
_USUAL: Final = Sampling()


def count_idle_blocks(run: Run) -> float:
    """Return how many blocks are shown to be idle; NaN where prompts are too few to show a rare cost."""
    added_PL, sampling = added_losses(run["drop"])
    has_value = ~np.isnan(added_PL).all(1)
    n_different = has_value.sum() if sampling.cluster is None else np.unique(sampling.cluster[has_value]).size
    is_enough = n_different >= FEWEST_PROMPTS
    return float(idle_blocks(run["drop"], run.identity.seed).sum()) if is_enough else np.nan


def idle_blocks(drop: xr.Dataset, seed: int = 0, bound: float = IDLE) -> np.ndarray:
    """Return for each block whether its drop surely changes the loss by less than ``bound`` nats, [L].

    The interval over prompts must lie within ±bound: a test of equivalence, not the lack of a difference. It reaches to
    where one expensive prompt that was not among them would take it.
    """
    added_PL, sampling = added_losses(drop, Sampling(level=0.9, seed=seed))
    return np.array([-bound < ends.low and ends.high < bound for ends in outward_mean_intervals(added_PL, sampling)])


def added_losses(drop: xr.Dataset, sampling: Sampling = _USUAL) -> tuple[FloatArray, Sampling]:
    """Return what each prompt loses without each block, [P, L], and a sampling that draws copies of a prompt as one."""
    added_PL = (drop["loss"] - drop["baseline_loss"]).transpose("prompt", "dropped").values
    return added_PL, draw_copies_as_one(drop, sampling)


def draw_copies_as_one(drop: xr.Dataset, sampling: Sampling) -> Sampling:
    """Return a sampling that draws copies of a prompt as one."""
    return replace(sampling, cluster=clusters_in(drop, None))
