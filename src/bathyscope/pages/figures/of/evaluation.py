"""Benchmarks under schedules: a task's accuracy against the block. Drawn from what ``bathyscope.evaluate`` gives.

Source: lad2024 (layer interventions: benchmarks).
"""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import PLACES, Axis, Look, Series, panel
from bathyscope.pages.figures.kit.summary import Summary
from bathyscope.statistics.shares import share_interval

_KINDS: Final = {
    "drop": ("one block dropped", PLACES["dropped"]),
    "swap": ("neighbours swapped", PLACES["swapped"]),
    "repeat": ("{length} blocks repeated", PLACES["start"]),
}
_NORMAL: Final = "standard"
_SCORES: Final = ("acc", "loglikelihood")
_NORMAL_QUANTILE: Final = 1.959963984540054


def drawing(data: xr.Dataset) -> Drawing:
    """A panel for each task and each kind of schedule."""
    kinds = list(dict.fromkeys(zip(data["kind"].values.tolist(), data["length"].values.tolist())))
    made = [
        _panel(data.sel(task=task), str(task), kind, length)
        for task in data["task"].values
        for kind, length in kinds
        if kind in _KINDS
    ]
    note = (
        "Score of the model under each schedule; band: its 95 % interval over documents (Wilson's of an accuracy, by "
        "the standard error of a log-likelihood). Broken line: the normal model."
    )
    return Drawing([one for one in made if one is not None], note, blocks=data.attrs.get("n_blocks"))


def _panel(data: xr.Dataset, task: str, kind: str, length: int) -> Panel | None:
    metric = next((one for one in _SCORES if one in data["metric"].values), None)
    own = data.isel(schedule=(data["kind"].values == kind) & (data["length"].values == length))
    if metric is None or not own.sizes["schedule"]:
        return None
    own = own.sel(metric=metric).sortby("block")
    value, reach = own["value"].values, _NORMAL_QUANTILE * own["stderr"].values
    ends: list[FloatArray | None] = [None, None]
    if metric == "acc":  # the error is 0 where all documents agree
        ends = list(np.transpose([share_interval(one[np.isfinite(one)]) for one in own["correct"].values]))
    elif np.isfinite(reach).any():
        ends = [value - reach, np.minimum(value + reach, 0.0)]
    summary = Summary(value, *ends)
    said, place = _KINDS[kind]
    normal = data["value"].sel(metric=metric).values[data["kind"].values == _NORMAL]
    rules = {float(one): "normal model" for one in normal if np.isfinite(one)}
    y = "accuracy (share of documents)" if metric == "acc" else "log-likelihood of the right answer (nats)"
    curve = Series(said.format(length=length), own["block"].values, summary, Look(style.VERMILION), metric)
    title = f"{task}, {said.format(length=length)}"
    return panel(f"{task}_{kind}_{length}", [curve], Axis(title, place, y, rules=rules))
