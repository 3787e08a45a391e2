"""What single random subsets cost, next to their mean, which one expensive block may carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.arrays import FloatArray

if TYPE_CHECKING:
    import xarray as xr

RANDOM: Final = "random"
"""The candidate that stands for several subsets, by their mean."""


def spread_of(costs_by_candidate: Sequence[FloatArray]) -> dict[str, FloatArray]:
    """Return what the subsets of candidates cost by themselves, as variables of a plan, [candidates].

    Args:
        costs_by_candidate: of each candidate the mean test costs of its different subsets; that of the choice first.
    """
    choice = costs_by_candidate[0][0]
    return {
        "subsets": np.array([len(costs) for costs in costs_by_candidate], dtype=np.float64),
        "subset_median": np.array([np.median(costs) for costs in costs_by_candidate]),
        "subset_min": np.array([np.min(costs) for costs in costs_by_candidate]),
        "subset_max": np.array([np.max(costs) for costs in costs_by_candidate]),
        "subsets_cheaper": np.array([(costs < choice).sum() for costs in costs_by_candidate], dtype=np.float64),
    }


def random_sentence(data: xr.Dataset) -> str:
    """Return the median and the range of the random subsets, and the rank of the choice; empty where unknown."""
    if "subsets" not in data or RANDOM not in data["candidate"].values:
        return ""
    random = data.sel(candidate=RANDOM)
    count, cheaper = int(random["subsets"]), int(random["subsets_cheaper"])
    if count < 2:
        return ""
    median, lowest, highest = (f"{float(random[f'subset_{name}']):.4g}" for name in ("median", "min", "max"))
    return (
        f"Of {count} random subsets the median costs {median} ({lowest} to {highest}), and {cheaper} of them "
        f"{'costs' if cheaper == 1 else 'cost'} less than the choice (rank {cheaper + 1} of {count + 1})."
    )


def random_name(data: xr.Dataset) -> str:
    """Return what the candidate of random subsets is called where the choice costs less than their mean.

    One expensive block may carry the mean, so that subsets that cost less than the choice are counted.
    """
    random = data.sel(candidate=RANDOM)
    count = int(random["subsets"]) if "subsets" in data else 0
    cheaper = int(random["subsets_cheaper"]) if count else 0
    if not cheaper:
        return "random subsets"
    return f"the mean of random subsets, of which {cheaper} of {count} {'costs' if cheaper == 1 else 'cost'} less"
