"""Largest activations and gradients of the members of a depth family, boundary by boundary.

Places of norms are said to differ in them: norms before attention and MLP let activations grow with depth, norms of the
sums let gradients vanish towards the first blocks. Source: csordas2025 (residual stream, gradients by depth).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from bathyscope import Run
from bathyscope.extend import variable
from bathyscope.extend.statistics import Sampling, mean_interval
from studies.common.arrays import FloatArray


@dataclass(frozen=True)
class Profile:
    """A quantity of every boundary.

    Args:
        measure: of the run.
        source: its variable there, (prompt, boundary).
        title: what it is.
        units: of it.
        formula: of one prompt's value.
        axis: the units in words, for a figure.
    """

    measure: str
    source: str
    title: str
    units: str
    formula: str
    axis: str


PROFILES: Final = {
    "largest": Profile(
        "residual", "largest", "largest activation", "1", "max over tokens and channels of |h_b|", "activation units"
    ),
    "largest_ratio": Profile(
        "residual",
        "largest_ratio",
        "largest activation over the median",
        "1",
        "max |h_b| / median |h_b|",
        "dimensionless",
    ),
    "gradient": Profile(
        "gradient",
        "norm",
        "norm of the gradient of the loss",
        "nats per activation unit",
        "‖∂ mean loss / ∂h_b‖₂",
        "nats per activation unit",
    ),
}
MEASURES: Final = ("residual", "gradient")


def profiles(runs: Sequence[Run], *, resamples: int, level: float, seed: int) -> xr.Dataset:
    """Means over prompts of every profile, with intervals, (member, boundary); NaN beyond a member's last boundary.

    Args:
        runs: of the members, with ``MEASURES``.
        resamples, level, seed: of the intervals.
    """
    longest = max(run["residual"].sizes["boundary"] for run in runs)
    data: dict[str, xr.Variable] = {}
    for name, profile in PROFILES.items():
        found = np.full((3, len(runs), longest), np.nan)
        for member, run in enumerate(runs):
            values = run[profile.measure][profile.source].transpose("prompt", "boundary").values
            found[:, member, : values.shape[1]] = _means(values, resamples, level, seed)
        for end, said, own in zip(("", "_low", "_high"), ("", ", lower end", ", upper end"), found):
            long_name = f"{profile.title}, mean over prompts{said}"
            data[f"{name}{end}"] = variable(
                ("member", "boundary"), own, long_name, profile.units, formula=profile.formula, source="csordas2025"
            )
    return xr.Dataset(data, {"boundary": np.arange(longest)})


def _means(values_PB: FloatArray, resamples: int, level: float, seed: int) -> FloatArray:
    """Mean and ends of its interval, [3, boundaries]."""
    ends = [
        mean_interval(values, Sampling(resamples, level=level, seed=seed), limits=(0.0, np.inf))
        for values in values_PB.T
    ]
    return np.vstack([values_PB.mean(0), np.array(ends).T])
