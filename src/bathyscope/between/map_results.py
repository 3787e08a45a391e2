"""The labelled arrays of maps between models: metrics with intervals, penalties, and the diagonal statistics.

Suffixes: P prompts, S sources, T targets, W weightings: the first counts every prompt once, the others are resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bathyscope.errors import StoreError
from bathyscope.labels import variable
from bathyscope.statistics.bootstrap import bootstrap_interval, resample_counts
from bathyscope.statistics.diagonal import (
    alignment,
    deviation_by_chance,
    deviation_of_one_partner,
    relative_depths,
)
from bathyscope.statistics.least_squares import Array
from bathyscope.statistics.splits import Splits
from bathyscope.store.shards import encode_results, read_results

if TYPE_CHECKING:
    from bathyscope.between.map_errors import MapErrors
    from bathyscope.between.streams import Streams

SOURCE = "csordas2025, maps between models"
DIRECTIONS = ("best_target", "best_source")
GROUP = "maps"

_PAIR = ("source", "target")
_METRICS = {
    "relative_error": ("mean relative error of the map on test tokens", "mean of ‖y − ŷ‖ / ‖y‖", (0.0, np.inf)),
    "summed_error": ("summed error of the map over summed size of the target", "Σ ‖y − ŷ‖ / Σ ‖y‖", (0.0, np.inf)),
    "r2": (
        "share of the target's variance that the map gives",
        "1 − Σ ‖y − ŷ‖² / Σ ‖y − ȳ‖², ȳ the mean of the fitted tokens",
        (-np.inf, 1.0),
    ),
}
_DIAGONAL = {
    "slope": (
        "slope of the best partner's relative depth over one's own",
        "least squares of argmin / L' over b / L",
        (-np.inf, np.inf),
    ),
    "deviation": (
        "mean distance of the best partner's relative depth from one's own",
        "mean of |argmin / L' − b / L|",
        (0.0, 1.0),
    ),
    "rank_correlation": (
        "rank correlation of the best partner's depth and one's own",
        "Spearman's of argmin and b",
        (-1.0, 1.0),
    ),
}


@dataclass(frozen=True)
class Setup:
    """What was asked for.

    Args:
        source, target: names of the models.
        prompts: name of the prompt set.
        block: sources in one pass over the text.
    """

    source: str
    target: str
    prompts: str
    splits: Splits
    resamples: int
    level: float
    seed: int
    block: int


def dataset(errors: MapErrors, ridge_ST: Array, streams: Streams, setup: Setup) -> xr.Dataset:
    """All arrays of the maps.

    Args:
        errors: on the test prompts.
        ridge_ST: the penalty of each pair.
    """
    tested = setup.splits.test
    resampled = resample_counts(len(tested), setup.resamples, np.random.default_rng([setup.seed, 1]))
    metrics = errors.metrics(np.concatenate([np.ones((1, len(tested))), resampled]))
    intervals = _Intervals(np.array([streams.tokens([number]) for number in tested], dtype=np.float64), setup.level)
    data: dict[str, xr.Variable] = {}
    for name, (text, formula, limits) in _METRICS.items():
        data |= intervals.variables(name, _PAIR, metrics[name], text, formula, limits)
    data["ridge"] = variable(
        _PAIR, ridge_ST, "ridge penalty with the smallest held-out error", "1", formula="λ", source=SOURCE
    )
    data["mean_error"] = variable(
        ("target",),
        errors.mean_error(),
        "mean relative error of giving the fitted tokens' mean, whatever the source",
        "1",
        formula="mean of ‖y − ȳ‖ / ‖y‖",
        source=SOURCE,
    )
    data |= _diagonal(metrics["relative_error"], intervals)
    depths = [relative_depths(n) for n in streams.boundaries]
    coords = {
        "source": np.arange(streams.boundaries[0]),
        "target": np.arange(streams.boundaries[1]),
        "relative_depth_source": ("source", depths[0]),
        "relative_depth_target": ("target", depths[1]),
        "direction": list(DIRECTIONS),
    }
    return xr.Dataset(data, coords, _attributes(streams, setup))


class _Intervals:
    """Bootstrap intervals over prompts of estimates in the first of several weightings."""

    def __init__(self, tokens_P: Array, level: float) -> None:
        self._tokens_P, self._level = tokens_P, level

    def variables(
        self,
        name: str,
        dims: tuple[str, ...],
        values_W: Array,
        text: str,
        formula: str,
        limits: tuple[float, float],
        grouped: bool = False,
    ) -> dict[str, xr.Variable]:
        """The estimate and the two ends of its interval.

        Args:
            values_W: [W, …].
            grouped: the estimate chooses between places (see ``bootstrap_interval``).
        """
        ends = np.empty((2, *values_W.shape[1:]))
        for place in np.ndindex(values_W.shape[1:]):
            estimate, resampled = float(values_W[(0, *place)]), values_W[(slice(1, None), *place)]
            ends[(slice(None), *place)] = bootstrap_interval(
                estimate, resampled, self._tokens_P, level=self._level, limits=limits, grouped=grouped
            )
        made = {name: variable(dims, values_W[0], text, "1", formula=formula, source=SOURCE)}
        for suffix, end, values in zip(("low", "high"), ("lower", "upper"), ends):
            long_name = f"{end} end of the {100 * self._level:g} % interval of: {text}"
            made[f"{name}_{suffix}"] = variable(
                dims, values, long_name, "1", formula="bootstrap over test prompts", source=SOURCE
            )
        return made


def _diagonal(error_WST: Array, intervals: _Intervals) -> dict[str, xr.Variable]:
    """Best partners in both directions, and how they go with relative depth."""
    found = [alignment(error_WST), alignment(np.swapaxes(error_WST, -2, -1))]
    data = {
        direction: variable(
            (dim,), one.best[0], f"{other} boundary with the smallest relative error", "1", source=SOURCE
        )
        for direction, dim, other, one in zip(DIRECTIONS, _PAIR, reversed(_PAIR), found)
    }
    for name, (text, formula, limits) in _DIAGONAL.items():
        values_W = np.stack([getattr(one, name) for one in found], axis=1)
        data |= intervals.variables(name, ("direction",), values_W, text, formula, limits, grouped=True)
    sizes = [error_WST.shape[1:], error_WST.shape[:0:-1]]
    for name, text, null in (
        ("deviation_chance", "deviation where any boundary were the best with the same chance", deviation_by_chance),
        ("deviation_constant", "smallest deviation where all have the same best partner", deviation_of_one_partner),
    ):
        data[name] = variable(("direction",), [null(*size) for size in sizes], text, "1", source=SOURCE)
    return data


def _attributes(streams: Streams, setup: Setup) -> Mapping[str, str | int | float]:
    splits = setup.splits
    counts = {
        f"{name}_{what}": found
        for name, numbers in (("fit", splits.fit), ("choose", splits.choose), ("test", splits.test))
        for what, found in (("prompts", len(numbers)), ("tokens", streams.tokens(numbers)))
    }
    return {
        "source_model": setup.source,
        "target_model": setup.target,
        "prompts": setup.prompts,
        **counts,
        "sources_per_pass": setup.block,
        "passes": -(-streams.boundaries[0] // setup.block),
        "resamples": setup.resamples,
        "level": setup.level,
        "seed": setup.seed,
    }


def encode_maps(found: xr.Dataset) -> bytes:
    """The maps' arrays as the bytes of a netCDF file; the same arrays give the same bytes."""
    return encode_results({GROUP: found})


def open_maps(path: str | Path) -> xr.Dataset:
    """The arrays in a file that ``bathyscope maps --out FILE.nc`` wrote.

    Raises:
        OptionError: ``path`` is no path.
        StoreError: it cannot be read, was altered, or holds something else.
    """
    groups = read_results(path, GROUP)
    if GROUP not in groups:
        raise StoreError(f"{str(path)!r} holds no maps; give a file that bathyscope maps --out FILE.nc wrote.")
    return groups[GROUP]
