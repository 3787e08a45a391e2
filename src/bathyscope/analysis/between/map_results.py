"""The labelled arrays of maps between models: metrics with intervals, penalties, and the diagonal statistics.

Suffixes: P prompts, S sources, T targets, W weightings: the first counts every prompt once, the others are resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.commands import name_command
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.core.strict import DAMAGED
from bathyscope.core.tables import TextTable
from bathyscope.core.text import elided, level_text
from bathyscope.errors import StoreError
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.runs.shards import encode_results, read_results
from bathyscope.statistics.bootstrap import bootstrap_interval
from bathyscope.statistics.diagonal import (
    NONE,
    alignment,
    deviation_by_chance,
    deviation_of_one_partner,
    relative_depths,
)
from bathyscope.statistics.least_squares import Array
from bathyscope.statistics.sampling import Sampling, cluster_weights, resample_counts
from bathyscope.statistics.splits import Splits

if TYPE_CHECKING:
    from bathyscope.analysis.between.map_errors import MapErrors
    from bathyscope.analysis.between.streams import Streams

SOURCE = "csordas2025, maps between models"
DIRECTIONS = ("best_target", "best_source")
GROUP = "maps"
PAIR = ("source", "target")
COLUMNS = ("relative_error", "relative_error_low", "relative_error_high", "summed_error", "r2", "ridge")
_TITLES = {"best_target": "Best target of each source", "best_source": "Best source of each target"}

_pair = partial(Label, "source target", source=SOURCE)
_along = partial(Label, "direction", source=SOURCE)
_METRICS = {"relative_error": (0.0, np.inf), "summed_error": (0.0, np.inf), "r2": (-np.inf, 1.0)}
"""Name → smallest and largest value there can be."""
_DIAGONAL = {"slope": (-np.inf, np.inf), "deviation": (0.0, 1.0), "rank_correlation": (-1.0, 1.0)}
"""The same of how best partners go with depth."""


def _estimated(name: str, label: Callable[..., Label], text: str, formula: str) -> Table:
    """An estimate and the ends of its interval."""
    of = f"the {{percent=95 %}} interval of: {text}"
    return {name: label(text, formula=formula), **interval(name, label, of, formula="bootstrap over test prompts")}


_TABLE: Table = {
    **_estimated("relative_error", _pair, "mean relative error of the map on test tokens", "mean of ‖y − ŷ‖ / ‖y‖"),
    **_estimated("summed_error", _pair, "summed error of the map over summed size of the target", "Σ ‖y − ŷ‖ / Σ ‖y‖"),
    **_estimated(
        "r2",
        _pair,
        "share of the target's variance that the map gives",
        "1 − Σ ‖y − ŷ‖² / Σ ‖y − ȳ‖², ȳ the mean of the fitted tokens",
    ),
    "ridge": _pair("ridge penalty with the smallest held-out error", formula="λ"),
    "mean_error": Label(
        "target",
        "mean relative error of giving the fitted tokens' mean, whatever the source",
        formula="mean of ‖y − ȳ‖ / ‖y‖",
        source=SOURCE,
    ),
    "best_target": Label("source", "target boundary with the smallest relative error", source=SOURCE),
    "best_source": Label("target", "source boundary with the smallest relative error", source=SOURCE),
    **_estimated(
        "slope",
        _along,
        "slope of the best partner's relative depth over one's own",
        "least squares of argmin / L' over b / L",
    ),
    **_estimated(
        "deviation",
        _along,
        "mean distance of the best partner's relative depth from one's own",
        "mean of |argmin / L' − b / L|",
    ),
    **_estimated(
        "rank_correlation",
        _along,
        "rank correlation of the best partner's depth and one's own",
        "Spearman's of argmin and b",
    ),
    "deviation_chance": _along("deviation where any boundary were the best with the same chance"),
    "deviation_constant": _along("smallest deviation where all have the same best partner"),
}


def dataset(errors: MapErrors, ridge_ST: Array, streams: Streams, splits: Splits, sampling: Sampling) -> xr.Dataset:
    """All arrays of the maps, from their errors on the test prompts and each pair's penalty."""
    tested = splits.test
    test_cluster = sampling.take(list(tested)).cluster
    # A stream of its own: the same seed has dealt the prompts out to fitting and testing.
    rng = np.random.default_rng([sampling.seed, 1])
    resampled = resample_counts(len(tested), sampling.resamples, rng, test_cluster)
    metrics = errors.metrics(np.concatenate([np.ones((1, len(tested))), resampled]))
    tokens_U = cluster_weights([streams.tokens([number]) for number in tested], test_cluster)
    ends = partial(_with_ends, tokens_U=tokens_U, level=sampling.level)
    error_WST = metrics["relative_error"]
    # Partners are chosen again in every resample, or their intervals would leave out the choice.
    best = [alignment(error_WST), alignment(np.swapaxes(error_WST, -2, -1))]
    sizes = [error_WST.shape[1:], error_WST.shape[:0:-1]]
    data: dict[str, Any] = {}
    for name, limits in _METRICS.items():
        data |= ends(name, metrics[name], limits)
    data |= {"ridge": ridge_ST, "mean_error": errors.mean_error()}
    data |= {direction: aligned.best[0] for direction, aligned in zip(DIRECTIONS, best)}
    for name, limits in _DIAGONAL.items():
        # A partner jumps between boundaries, so that these intervals also hold the middle of the resamples.
        data |= ends(name, np.stack([getattr(aligned, name) for aligned in best], axis=1), limits, grouped=True)
    data["deviation_chance"] = [deviation_by_chance(*size) for size in sizes]
    data["deviation_constant"] = [deviation_of_one_partner(*size) for size in sizes]
    coords = {
        "source": np.arange(streams.boundaries[0]),
        "target": np.arange(streams.boundaries[1]),
        "relative_depth_source": ("source", relative_depths(streams.boundaries[0])),
        "relative_depth_target": ("target", relative_depths(streams.boundaries[1])),
        "direction": list(DIRECTIONS),
    }
    return labelled(_TABLE, data, coords, percent=f"{100 * sampling.level:g} %")


def _with_ends(
    name: str, values_W: Array, limits: tuple[float, float], *, tokens_U: Array, level: float, grouped: bool = False
) -> dict[str, Array]:
    """The estimate of the first weighting, and the two ends of its interval from the others; values are [W, …].

    ``tokens_U`` are those of what is resampled, test prompts or clusters of them; ``grouped`` as ``bootstrap_interval``
    has it.
    """
    ends = np.empty((2, *values_W.shape[1:]))
    for place in np.ndindex(values_W.shape[1:]):
        estimate, resampled = float(values_W[(0, *place)]), values_W[(slice(1, None), *place)]
        ends[(slice(None), *place)] = bootstrap_interval(
            estimate, resampled, tokens_U, level=level, limits=limits, grouped=grouped
        )
    return {name: values_W[0], f"{name}_low": ends[0], f"{name}_high": ends[1]}


def encode_maps(data: xr.Dataset) -> bytes:
    """Return the maps' arrays as the bytes of a netCDF file; the same arrays give the same bytes."""
    return encode_results({GROUP: data})


def open_maps(path: str | Path) -> LabelledResult:
    """Open the maps in a file that ``bathyscope diff maps --out FILE.nc`` wrote.

    Args:
        path: the file.

    Raises:
        OptionError: ``path`` is no path.
        StoreError: it cannot be read, was altered, or holds something else.

    Example:
        >>> bathyscope.open("maps.nc")  # doctest: +SKIP
    """
    groups = read_results(path, GROUP)
    if GROUP not in groups and (Path(path).parent / "manifest.json").is_file():
        raise StoreError(
            f"{str(path)!r} is a part of the run in {str(Path(path).parent)!r}; open that folder (bathyscope show)."
        )
    if GROUP not in groups:
        raise StoreError(f"{str(path)!r} holds no maps; give a file that {name_command('maps')} --out FILE.nc wrote.")
    try:
        result = maps_result(groups[GROUP])
        # everything that is said of maps is read once
        _ = repr(result), result.record(), result.to_dataframe()
    except DAMAGED as error:
        raise StoreError(
            f"{str(path)!r} holds no whole maps ({type(error).__name__}: {elided(error, 80)}). Restore it from a copy, "
            "or compute them again."
        ) from error
    return result


def maps_result(data: xr.Dataset) -> LabelledResult:
    """Return the arrays of maps as a result."""
    return LabelledResult(data, _conclude(data), _tabulate, figure="maps", lay_out=_lay_out)


def _lay_out(data: xr.Dataset) -> list[TextTable]:
    """Return every source with its best target; all pairs would be thousands of rows."""
    rows: list[list[float | Estimate | None]] = []
    for source, target in enumerate(data["best_target"].values.tolist()):
        source_depth = float(data["relative_depth_source"][source])
        if target == NONE:
            rows.append([source, source_depth, None, None, None, None])
            continue
        pair = data.isel(source=source, target=target)
        target_depth = float(pair["relative_depth_target"])
        error = Estimate.of(pair, "relative_error")
        rows.append([source, source_depth, target, target_depth, error, float(pair["r2"])])
    headings = ("source", "relative depth", "best target", "relative depth", "relative error", "R²")
    return [TextTable(headings, rows, forms={"relative depth": ".2f", "relative error": ".3g", "R²": ".3f"})]


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    return tabulate_over(data, (*PAIR, *COLUMNS), PAIR)


def _conclude(data: xr.Dataset) -> str:
    """Return how the relative depths of best partners agree; of files that lack something, what they tell."""
    sentences = [
        f"{title}, by relative depth: slope {_estimate(data, 'slope', direction)}; mean distance "
        f"{_estimate(data, 'deviation', direction)}, by chance "
        f"{float(data['deviation_chance'].sel(direction=direction)):.2f}; rank correlation "
        f"{_estimate(data, 'rank_correlation', direction)}."
        for direction, title in _TITLES.items()
    ]
    attrs = data.attrs
    sentences.append(
        f"Slope 1 means the same relative depth; intervals of {level_text(attrs['level'])} over "
        f"{attrs['test_prompts']} test prompts; maps fitted to {attrs['fit_tokens']} tokens, ridge chosen on "
        f"{attrs['choose_tokens']}."
    )
    return " ".join(sentences)


def _estimate(data: xr.Dataset, name: str, direction: str) -> str:
    estimate = Estimate.of(data.sel(direction=direction), name)
    if np.isnan(estimate.value):
        return "missing (all have the same best one)" if name == "rank_correlation" else "missing"
    return f"{estimate:.2f}"
