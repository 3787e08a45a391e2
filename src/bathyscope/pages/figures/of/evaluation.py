"""Benchmarks under schedules: a task's accuracy by block. Drawn from the result of ``bathyscope.evaluate``.

Source: lad2024 (layer interventions: benchmarks).
"""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.pages.figures.kind import Drawing, Panel, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_panel
from bathyscope.pages.figures.kit.series import PLACES, Axis, Look, Series
from bathyscope.pages.figures.kit.summary import Summary
from bathyscope.statistics.shares import share_interval

_KINDS: Final = {
    "drop": ("one block dropped", PLACES["dropped"]),
    "swap": ("neighbours swapped", PLACES["swapped"]),
    "parallel": ("{length} blocks in parallel", PLACES["parallel"]),
    "repeat": ("{length} blocks repeated", PLACES["start"]),
}
_NORMAL: Final = "standard"
_SCORES: Final = ("acc", "loglikelihood")
_NORMAL_QUANTILE: Final = 1.959963984540054


def drawing(data: xr.Dataset) -> Drawing:
    """Draw a panel for each task and each kind of schedule."""
    kinds = list(dict.fromkeys(zip(data["kind"].values.tolist(), data["length"].values.tolist())))
    panels = [
        _make_panel(data.sel(task=task), str(task), kind, length)
        for task in data["task"].values
        for kind, length in kinds
        if kind in _KINDS
    ]
    note = (
        "Score of the model under each schedule; band: its 95 % interval over documents (Wilson's of an accuracy, by "
        "the standard error of a log-likelihood). Broken line: the normal model."
    )
    return Drawing(drop_empty(panels), note, blocks=data.attrs.get("n_blocks"))


def _make_panel(data: xr.Dataset, task: str, kind: str, length: int) -> Panel | None:
    metric = next((name for name in _SCORES if name in data["metric"].values), None)
    scores = data.isel(schedule=(data["kind"].values == kind) & (data["length"].values == length))
    if metric is None or not scores.sizes["schedule"]:
        return None
    scores = scores.sel(metric=metric).sortby("block")
    value, reach = scores["value"].values, _NORMAL_QUANTILE * scores["stderr"].values
    ends: list[FloatArray | None] = [None, None]
    # The standard error of an accuracy is 0 where all documents agree; Wilson's interval keeps a width.
    if metric == "acc":
        ends = list(
            np.transpose([share_interval(correct[np.isfinite(correct)]) for correct in scores["correct"].values])
        )
    elif np.isfinite(reach).any():
        # A log-likelihood cannot exceed 0, whatever its standard error.
        ends = [value - reach, np.minimum(value + reach, 0.0)]
    summary = Summary(value, *ends)
    change, place = _KINDS[kind]
    normal = data["value"].sel(metric=metric).values[data["kind"].values == _NORMAL]
    rules = {float(score): "normal model" for score in normal if np.isfinite(score)}
    y = "accuracy (share of documents)" if metric == "acc" else "log-likelihood of the right answer (nats)"
    curve = Series(change.format(length=length), scores["block"].values, summary, Look(style.VERMILION), metric)
    title = f"{task}, {change.format(length=length)}"
    return make_panel(f"{task}_{kind}_{length}", [curve], Axis(title, place, y, rules=rules))
