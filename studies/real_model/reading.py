"""Numbers that claims are judged by: what they are computed from, their intervals over prompts, and the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import xarray as xr

from bathyscope.extend.statistics import bootstrap_interval, resample_counts
from studies.common.arrays import FloatArray
from studies.real_model.claims import Claim

RESAMPLES: Final = 2000
LEVEL: Final = 0.95
IN_WHOLE_BLOCKS: Final = frozenset(
    {
        "phase_transition",
        "criterion_cosine",
        "criterion_kl",
        "criterion_overlap",
        "criteria_order",
        "difficulty_cosine",
        "difficulty_kl",
        "difficulty_overlap",
        "wic_middle",
        "answer_arrives",
    }
)
"""Keys of the quantities that jump from one block to another."""
FRACTIONS: Final = frozenset(
    {
        "phase_transition",
        "criterion_cosine",
        "criterion_kl",
        "criterion_overlap",
        "wic_middle",
        "answer_arrives",
        "subjoiners_early",
        "gradients_first_half",
        "lens_overlap_late",
        "drop_middle",
    }
)
"""Keys of the quantities that lie between 0 and 1, and their intervals with them."""
_ROUNDING: Final = 1e-9
Decision = Literal["holds", "does not hold", "cannot be decided"]


@dataclass(frozen=True)
class Sample:
    """Stored curves and how much each prompt counts."""

    data: xr.Dataset
    weights: FloatArray

    @property
    def n_blocks(self) -> int:
        """L of the model."""
        return int(self.data.attrs["blocks"])

    def mean(self, name: str) -> FloatArray:
        """The weighted mean of a variable over prompts; of one without prompts its values."""
        array = self.data[name]
        values = np.asarray(array.transpose(*(("prompt", ...) if "prompt" in array.dims else ())).values, np.float64)
        if "prompt" not in array.dims:
            return values
        present = ~np.isnan(values)
        weights = self.weights.reshape(-1, *[1] * (values.ndim - 1)) * present
        with np.errstate(invalid="ignore"):  # what no prompt has is missing
            mean: FloatArray = (weights * np.where(present, values, 0.0)).sum(0) / weights.sum(0)
        return mean


class Reading(NamedTuple):
    """A quantity and its 95 % interval; the ends are the value where nothing is sampled."""

    value: float
    low: float
    high: float


Quantity = Callable[..., float]
QUANTITIES: Final[dict[str, tuple[tuple[str, ...], Quantity]]] = {}
"""Key of a claim → the jobs that its function takes, and the function."""


def quantity(*jobs: str) -> Callable[[Quantity], Quantity]:
    """Register the function of a claim of the same name."""

    def register(function: Quantity) -> Quantity:
        QUANTITIES[function.__name__] = (jobs, function)
        return function

    return register


def decide(claim: Claim, reading: Reading) -> Decision:
    """Compare an interval with the bound; rounding of the last digits decides nothing."""
    if reading.low >= claim.low - _ROUNDING and reading.high <= claim.high + _ROUNDING:
        return "holds"
    if reading.high < claim.low - _ROUNDING or reading.low > claim.high + _ROUNDING:
        return "does not hold"
    return "cannot be decided"


def read_quantity(key: str, stored: Mapping[str, xr.Dataset], level: float = LEVEL) -> Reading:
    """Return the quantity of a claim with its interval.

    Args:
        stored: job → what was stored of one model.
        level: coverage of the interval.
    """
    jobs, function = QUANTITIES[key]
    rng = np.random.default_rng(0)
    datasets = [stored[job] for job in jobs]
    tokens = [_tokens(dataset) for dataset in datasets]
    value = function(*(Sample(dataset, weights) for dataset, weights in zip(datasets, tokens)))
    counted = [weights for weights in tokens if weights.size > 1]
    if not counted:
        return Reading(value, value, value)
    draws = [resample_counts(weights.size, RESAMPLES, rng) * weights for weights in tokens]
    resampled = np.array(
        [
            function(*(Sample(dataset, weights[draw]) for dataset, weights in zip(datasets, draws)))
            for draw in range(RESAMPLES)
        ]
    )
    fewest = min(counted, key=lambda weights: weights.size)
    limits = (0.0, 1.0) if key in FRACTIONS else (-np.inf, np.inf)
    if not np.isfinite(value):
        return Reading(np.nan, np.nan, np.nan)
    resampled = np.where(np.isfinite(resampled), resampled, np.nan)
    low, high = bootstrap_interval(value, resampled, fewest, level=level, limits=limits, grouped=key in IN_WHOLE_BLOCKS)
    step = rounded_by(key, datasets)
    return Reading(value, max(limits[0], low - step), min(limits[1], high + step))


def rounded_by(key: str, datasets: Sequence[xr.Dataset]) -> float:
    """How far the interval of a claim reaches on each side, however well prompts agree.

    What is read in whole blocks is known to half a block, in each of the surveys that it is read from.
    """
    if key not in IN_WHOLE_BLOCKS:
        return 0.0
    whole = 1 if key == "criteria_order" else int(datasets[0].attrs["blocks"])
    return 0.5 * len(datasets) / whole


def _tokens(dataset: xr.Dataset) -> FloatArray:
    return np.asarray(dataset["n_tokens"].values, np.float64) if "n_tokens" in dataset else np.ones(1)
