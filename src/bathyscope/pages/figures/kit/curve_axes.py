"""Curves on one axes: lines with bands and reference lines, the scale of the axes, and a description in words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import bent_axis, block_axis, plain_log_axis
from bathyscope.pages.figures.kit.series import Axis, Series
from bathyscope.pages.figures.kit.summary import Summary

MOST_TOGETHER: Final = 8
"""Curves of several runs in one axes, at most; for more, each quantity has its own axes."""
_BELOW: Final = 3.0
"""A band whose interval reaches 0 ends, on a logarithmic axis, at the smallest mean divided by this."""
_MARKS: Final = 20
"""Approximate number of marks on a curve of many places."""


def fill_axes(ax: Axes, curves: Sequence[Series], axis: Axis, logarithmic: bool) -> None:
    """Draw curves, reference lines and labels in one axes."""
    for curve in curves:
        # Bands of many runs on one axes would cover each other and all curves.
        draw_series(ax, curve, logarithmic, band=len(curves) <= MOST_TOGETHER)
    for height, name in axis.rules.items():
        ax.axhline(height, **style.BROKEN, zorder=1, label=name or None)
    if axis.whole:
        block_axis(ax, axis.x, min(c.x.min() for c in curves), max(c.x.max() for c in curves))
    else:
        ax.set(xlim=(-0.02, 1.02), xlabel=axis.x)
    # From here the order matters: scales look at limits that the curves above have set.
    usual = _find_usual_size(curves) if axis.scale == "bent" else None
    if not logarithmic:
        _keep_means_in_view(ax, curves)
    if logarithmic:
        plain_log_axis(ax)
    elif usual is not None:
        bent_axis(ax, usual)
    beyond = "" if usual is None else f", log scale beyond {usual:.1g}"
    ax.set_ylabel(f"{axis.y}, log scale" if logarithmic else f"{axis.y}{beyond}")


def _keep_means_in_view(ax: Axes, curves: Sequence[Series]) -> None:
    """Cut bands that would fill most of the picture, such as those of two prompts, whose t quantile is 12.7."""
    means = np.concatenate([curve.summary.mean for curve in curves])
    means = means[np.isfinite(means)]
    low, high = ax.get_ylim()
    room = float(np.ptp(means)) or float(np.abs(means).max()) or high - low
    ax.set_ylim(max(low, float(means.min()) - room), min(high, float(means.max()) + room))


def cut_curves(curves: Sequence[Series], axis: Axis, blocks: range) -> list[Series]:
    """Return the curves at these blocks, and at the boundaries around them; those that have none there are left out."""
    cut = []
    for curve in curves:
        at_boundaries = "boundary" in (curve.place, axis.x.split(" ")[0])
        inside = (curve.x >= blocks.start) & (curve.x < blocks.stop + at_boundaries)
        mean, low, high = (
            None if values is None else values[inside]
            for values in (curve.summary.mean, curve.summary.low, curve.summary.high)
        )
        if mean is not None and mean.size:
            cut.append(replace(curve, x=curve.x[inside], summary=Summary(mean, low, high)))
    return cut


def is_logarithmic(curves: Sequence[Series], axis: Axis) -> bool:
    """Return whether the axis of values is logarithmic, by choice or by the range of the means."""
    if axis.scale != "auto":
        return axis.scale == "log"
    values = np.concatenate([curve.summary.mean for curve in curves])
    values = values[np.isfinite(values)]
    return bool((values > 0).all() and values.max() > 50 * values.min())


def draw_series(ax: Axes, curve: Series, logarithmic: bool = False, band: bool = True) -> None:
    """Draw a line with its marks and its band."""
    look, summary = curve.look, curve.summary
    # On long curves marks would run into each other; a few of them still identify the curve.
    every = 1 if len(curve.x) <= style.MARKERS_UP_TO else -(-len(curve.x) // _MARKS)
    ax.plot(curve.x, summary.mean, look.line, color=look.colour, marker=look.marker, markevery=every, label=curve.label)
    if band and summary.low is not None and summary.high is not None:
        # A logarithmic axis has no place for 0: matplotlib drops such corners and closes the outline elsewhere.
        low, drawable = summary.low, np.isfinite(summary.low)
        if logarithmic:
            positive = summary.mean[summary.mean > 0]
            low = np.maximum(low, positive.min() / _BELOW if positive.size else 0)
            drawable = (low > 0) & (summary.high > low)
        ax.fill_between(curve.x, low, summary.high, where=drawable, color=look.colour, alpha=0.22, linewidth=0)


def _find_usual_size(curves: Sequence[Series]) -> float | None:
    """Return the median size of the curves' values where the largest exceeds ten times it; else None."""
    sizes = np.abs(np.concatenate([curve.summary.mean for curve in curves]))
    sizes = sizes[sizes > 0]
    usual = float(np.median(sizes)) if sizes.size else 0.0
    return usual if sizes.size and sizes.max() > 10 * usual else None


def describe_curves(curves: Sequence[Series], axis: Axis) -> str:
    """Describe curves by their first, last, lowest and highest values."""
    descriptions = []
    for curve in curves:
        mean = curve.summary.mean
        finite = np.flatnonzero(np.isfinite(mean))
        places = (finite[0], finite[-1], np.nanargmin(mean), np.nanargmax(mean))
        at = [f"{mean[place]:.3g} at {_format_place(curve.x[place])}" for place in places]
        descriptions.append(f"{curve.label}: {at[0]}, {at[1]}, lowest {at[2]}, highest {at[3]}")
    return f"Line chart, {axis.title.lower()}: {axis.y} against {axis.x}. {'; '.join(descriptions)}."


def _format_place(x: Any) -> str:
    """Write a block or boundary, or its share of the depth."""
    return f"{x:.3g}" if isinstance(x, np.floating) else str(x)
