"""The full model and one schedule on the same documents: each metric with intervals, and their paired difference."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import xarray as xr

from bathyscope.arrays import FloatArray
from bathyscope.evaluation.result import Evaluation, is_mean, number, per_document
from bathyscope.evaluation.variants import NORMAL
from bathyscope.statistics.bootstrap import Interval, mean_interval
from bathyscope.statistics.shares import are_shares, share_difference_interval, share_interval
from bathyscope.surgery.task_table import COLUMNS, task_rows

_NONE = Interval(math.nan, math.nan)


def against_full(found: Evaluation, schedule: str, *, resamples: int, level: float, seed: int) -> xr.Dataset:
    """A row for every task and metric.

    Shares of documents have Wilson's interval, and their difference the paired one of Agresti and Min; other means a
    bootstrap over documents. Metrics that are no mean of the documents' own values have none.

    Args:
        schedule: beside the normal model, in ``found``.
        resamples, level, seed: of the intervals.
    """
    rows: dict[tuple[str, str], list[float]] = {}
    mean = partial(mean_interval, resamples=resamples, level=level, seed=seed)

    def interval(values: FloatArray) -> Interval:
        return share_interval(values, level=level) if are_shares(values) else mean(values)

    for full in (score for score in found.scores if score["schedule"] == NORMAL):
        pruned = next(s for s in found.scores if (s["schedule"], s["task"]) == (schedule, full["task"]))
        for metric in full["metrics"]:
            numbers = [number(score["metrics"][metric]["value"]) for score in (full, pruned)]
            ends, gap = [_NONE, _NONE, _NONE], math.nan
            if is_mean(full, metric) and is_mean(pruned, metric):
                with_all, without = (per_document(score, metric) for score in (full, pruned))
                gap = float((without - with_all).mean())
                shares = are_shares(with_all) and are_shares(without)
                both = share_difference_interval(without, with_all, level=level) if shares else mean(without - with_all)
                ends = [interval(with_all), interval(without), both]
            rows[full["task"], metric] = [
                float(len(full["documents"])),
                *(end for value, own in zip([*numbers, gap], ends) for end in (value, *own)),
            ]
    columns = np.array(list(rows.values()), dtype=np.float64).T
    values = dict(zip(COLUMNS, columns)) | {"documents": columns[0].astype(np.int64)}
    return task_rows(list(rows), values, {"level": level, "resamples": resamples, "seed": seed, "schedule": schedule})
