"""Panels that runs of looped models have in addition: exits of a learned gate, and stages by place and by loop."""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.core.estimates import Estimate
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.forest import EstimateRow, draw_rows
from bathyscope.pages.figures.kit.legend import draw_legend

_RULES: Final = {
    "gate": ("learned gate", style.BLUE, "o-"),
    "confidence": ("confidence of the lens", style.VERMILION, "s--"),
}
_SHARES: Final = {
    "by_place": ("place in the loop\n(stages repeat)", style.BLUE),
    "by_loop": ("number of the loop\n(stages span loops)", style.GREEN),
}


def make_exits(data: xr.Dataset) -> Panel | None:
    """Make the panel of exits: how often tokens leave with their final top-1 token, by how deep they go."""
    if "exit_depth" not in data:
        return None
    alt = (
        "Line chart, share of tokens that leave with their final top-1 token against the mean boundary where they "
        f"leave, of a learned gate and of confidence. {_describe_advantage(data)}"
    )
    return Panel("exits", partial(_draw_exits, data=data), alt)


def describe_exits(data: xr.Dataset) -> str:
    """Return the sentences of a caption on exits; empty for models without a learned gate."""
    if "exit_depth" not in data:
        return ""
    return (
        " Exits: tokens leave at the first loop at which the gate's probability to have left, or the largest "
        "probability of the lens, reaches a threshold; points are thresholds, means over tokens and prompts. Where the "
        f"gate's line is higher, it chooses its tokens better than confidence does. {_describe_advantage(data)}"
    )


def _describe_advantage(data: xr.Dataset) -> str:
    gap = Estimate.of(data, "gate_advantage")
    return f"Mean gap of the two lines, gate over confidence: {gap:+.3f}; 0 = no better."


def _draw_exits(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    for rule, (label, colour, look) in _RULES.items():
        means = data.sel(exit_rule=rule).mean("prompt")
        ax.plot(
            means["exit_depth"].values, means["exit_agreement"].values, look, color=colour, label=label, markersize=4
        )
    ax.set(xlabel="boundary of the exit (index, 0-based, mean over tokens)", ylabel="share of tokens (dimensionless)")
    ax.set_ylim(-0.02, 1.02)
    ax.set_title("Exits with the final top-1 token")
    draw_legend(figure, *ax.get_legend_handles_labels())


def make_shares(data: xr.Dataset) -> Panel | None:
    """Make the panel of stages in loops: what share of the signatures' variance goes by place, and by loop."""
    if "by_place" not in data or not np.isfinite(float(data["by_place"])):
        return None
    listed = "; ".join(
        f"by {label.splitlines()[0]}: {Estimate.of(data, name):.2f}, "
        f"{_value(data, name, '_chance'):.2f} in random order"
        for name, (label, _) in _SHARES.items()
    )
    alt = f"Dots with intervals, share of the signatures' variance over a loop's steps. {listed}."
    return Panel("loops", partial(_draw_shares, data=data), alt)


def describe_shares(data: xr.Dataset) -> str:
    """Return the sentence of a caption on stages in loops; empty for models without loops."""
    if make_shares(data) is None:
        return ""
    return (
        "Stages in loops: share of the variance of the signatures over the steps that goes by a step's place in the "
        "loop, and by its loop, with intervals over prompts; outlines: the same steps in random order"
    )


def _value(data: xr.Dataset, name: str, end: str = "") -> float:
    return float(data[f"{name}{end}"])


def _draw_shares(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    rows = []
    for name, (label, colour) in _SHARES.items():
        low, high = (_value(data, name, end) for end in ("_low", "_high"))
        rows.append(EstimateRow(label, colour, _value(data, name), low, high, marker="o"))
        rows.append(
            EstimateRow("in random order", colour, _value(data, f"{name}_chance"), marker="o", hollow=True, thin=True)
        )
    draw_rows(ax, rows, size=6)
    ax.set_xlim(-0.02, 1.02)
    ax.set(xlabel="share of the signatures' variance (dimensionless)")
    ax.set_title("Do stages repeat in each loop?")
