"""What drop, swap and repeat have in common: what one changed schedule does to the prediction, per block.

Source: lad2024.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import xarray as xr

from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Drawing, FigureKind, Panel
from bathyscope.report.figures.lines import Axis, Curve, Look, chart, panel, series, token_weights, unit
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import describe, summarise

if TYPE_CHECKING:
    from bathyscope.store.run import Run


@dataclass(frozen=True)
class Change:
    """How one kind of changed schedule is named.

    Args:
        measure: group of the run.
        heading: on the page.
        circumstance: end of every panel's title, e.g. ``"without one block"``.
        axis: label of the depth axis.
        what: first sentence of the caption.
    """

    measure: str
    heading: str
    circumstance: str
    axis: str
    what: Callable[[Run], str]


def schedule_figure(change: Change) -> FigureKind:
    """The figure of drop, swap or repeat: KL, agreement, loss difference and entropy against the block."""
    return FigureKind(change.measure, change.heading, tuple(_PANELS), partial(_drawing, change))


def _drawing(change: Change, run: Run, options: FigureOptions) -> Drawing:
    data = run[change.measure]
    made = [draw(data, change, options) for name, draw in _PANELS.items() if name in data]
    note = (
        f"{change.what(run)} Compared with the untouched model at every position that has a next token. "
        f"{describe(options, data.sizes['prompt'])}"
    )
    return Drawing([one for one in made if one is not None], note)


def _kl(data: xr.Dataset, change: Change, options: FigureOptions) -> Panel | None:
    title = f"How far predictions move {change.circumstance}"
    axis = Axis(title, change.axis, "KL(normal ‖ changed) ({unit})", "auto")
    return chart("kl", data, axis, [Curve("kl", "KL", Look(style.VERMILION))], options)


def _agreement(data: xr.Dataset, change: Change, options: FigureOptions) -> Panel | None:
    axis = Axis(f"Top-1 token unchanged {change.circumstance}", change.axis, "top-1 agreement (share of tokens)")
    curve = Curve("top1_agreement", "agreement", Look(style.GREEN))
    return chart("top1_agreement", data, axis, [curve], options)


def _loss(data: xr.Dataset, change: Change, options: FigureOptions) -> Panel | None:
    def difference(loss: xr.DataArray) -> xr.DataArray:
        return loss - data["baseline_loss"]

    curve = series(data, "loss", "loss difference", Look(style.PURPLE), options, change=difference)
    title = f"Loss added {change.circumstance}"
    y = f"added loss ({unit(data, 'loss')})"
    return panel("loss", [curve], Axis(title, change.axis, y, rules={0.0: ""}))


def _entropy(data: xr.Dataset, change: Change, options: FigureOptions) -> Panel | None:
    weights = token_weights(data, "baseline_entropy")
    baseline = summarise(data["baseline_entropy"].values[:, None], weights, options)
    rules = {float(baseline.mean[0]): "untouched model"}
    axis = Axis(f"Entropy of the prediction {change.circumstance}", change.axis, "entropy ({unit})", rules=rules)
    curve = Curve("entropy", "changed model", Look(style.BLUE))
    return chart("entropy", data, axis, [curve], options)


_PANELS: Final = {"kl": _kl, "top1_agreement": _agreement, "loss": _loss, "entropy": _entropy}
