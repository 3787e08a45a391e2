"""What tasks say of a choice of blocks: the full and the pruned model on the same documents, as arrays and as text."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.estimates import MISSING, Estimate
from bathyscope.core.text import counted
from bathyscope.labels import Label, interval, labelled
from bathyscope.prompts.continued import MOST_CUT_OFF

_SOURCE: Final = "prune"
_metric = partial(Label, "row", units="as the metric", source=_SOURCE)
_MEASURED: Final = {
    "documents": Label("row", "documents that both answered", source=_SOURCE),
    "full": _metric("metric of the full model"),
    **interval("full", _metric, "its interval"),
    "pruned": _metric("metric of the model without the blocks"),
    **interval("pruned", _metric, "its interval"),
    "difference": _metric("pruned minus full, on the same documents"),
    **interval("difference", _metric, "its paired interval"),
}
COLUMNS: Final = tuple(_MEASURED)
CUT_OFF: Final = ("full_cut_off", "pruned_cut_off")
"""Shares of written answers; tasks whose answers are given have none, and neither have plans of earlier versions."""
_TABLE: Final = _MEASURED | {
    name: Label(
        "row", f"share of the {model} model's answers that the limit of tokens ended", source=_SOURCE, optional=True
    )
    for name, model in zip(CUT_OFF, ("full", "pruned"))
}
# Metrics that a sentence is about, the first that a task has.
_FIRST: Final = ("acc", "exact_match")


def task_rows(
    rows: Sequence[tuple[str, str]], values: Mapping[str, Any], attrs: Mapping[str, str | float]
) -> xr.Dataset:
    """Return the arrays, a row for every task and metric."""
    coords = {
        "task": ("row", np.array([task for task, _ in rows], dtype=object)),
        "metric": ("row", np.array([metric for _, metric in rows], dtype=object)),
    }
    return labelled(_TABLE, values, coords).assign_attrs(attrs)


def cut_off_shares(data: xr.Dataset) -> list[tuple[str, float, float]]:
    """Return the tasks whose answers are written, with the shares that the limit cut off, of both models."""
    if CUT_OFF[0] not in data:
        return []
    shares = zip(data["task"].values.tolist(), *(data[name].values.tolist() for name in CUT_OFF))
    # every metric of a task has its shares; tasks whose answers are given have NaN
    by_task = {task: (full, pruned) for task, full, pruned in shares if not math.isnan(full + pruned)}
    return [(task, full, pruned) for task, (full, pruned) in by_task.items()]


def task_sentences(data: xr.Dataset) -> list[str]:
    """Describe what becomes of every task."""
    tasks = data["task"].values.tolist()
    metrics = data["metric"].values.tolist()
    cut_off = {task: shares for task, *shares in cut_off_shares(data)}
    sentences = []
    # A task may have several metrics; a sentence is about one.
    for task in dict.fromkeys(tasks):
        rows = [row for row, name in enumerate(tasks) if name == task]
        kinds = [metrics[row].partition(",")[0] for row in rows]
        row = next((rows[kinds.index(name)] for name in _FIRST if name in kinds), rows[0])
        gap = f"{Estimate.of(data.isel(row=row), 'difference'):+.3g}"
        sentences.append(
            f"On {task} ({counted(int(data['documents'].values[row]), 'document')}) {metrics[row]} is "
            f"{float(data['pruned'].values[row]):.3g} without them and {float(data['full'].values[row]):.3g} with them"
            + ("." if gap == MISSING else f": {gap}.")
            + _cut_off_text(*cut_off.get(task, (0.0, 0.0)))
        )
    return sentences


def _cut_off_text(full: float, pruned: float) -> str:
    """Return how many answers the limit cut off, where it cut off more than chance may; else nothing."""
    if max(full, pruned) <= MOST_CUT_OFF:
        return ""
    return f" The limit of tokens ended {pruned:.0%} of these answers without them and {full:.0%} with them."
