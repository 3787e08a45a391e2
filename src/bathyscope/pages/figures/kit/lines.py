"""Panels of curves along the depth axis, and the numbers that they draw."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypedDict

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.pages.figures.kind import Drawing, Panel, Shared
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.axes import block_axis, head_figure
from bathyscope.pages.figures.kit.curve_axes import (
    cut_curves,
    describe_curves,
    draw_series,
    fill_axes,
    is_logarithmic,
)
from bathyscope.pages.figures.kit.lines_together import join_runs
from bathyscope.pages.figures.kit.series import DEPTH_LABEL, PLACES, Axis, Curve, Series, nth_look, summarise_curve
from bathyscope.pages.figures.options import FigureOptions

_DEPTHS: Final = {DEPTH_LABEL, *(label for dimension, label in PLACES.items() if dimension != "head")}


def make_chart(
    name: str,
    dataset: xr.Dataset,
    axis: Axis,
    curves: Sequence[Curve],
    options: FigureOptions,
) -> Panel | None:
    """Make a panel of the variables that the dataset has; None where none of them has a value.

    Args:
        axis: ``{unit}`` in its ``y`` is replaced by the first variable's unit.
    """
    present = [curve for curve in curves if curve.name in dataset]
    if not present:
        return None
    present_series = [summarise_curve(dataset, curve, options) for curve in present]
    return make_panel(name, present_series, replace(axis, y=axis.y.format(unit=unit(dataset[present[0].name]))))


def unit(values: xr.DataArray) -> str:
    """Return the unit in words that a reader of an axis understands."""
    units = str(values.attrs.get("units", ""))
    return "dimensionless" if units in ("", "1") else units


def make_panel(name: str, curves: Sequence[Series], axis: Axis) -> Panel | None:
    """Make a panel of these curves, shared with other runs over the depth; None without a value."""
    visible = [curve for curve in curves if np.isfinite(curve.summary.mean).any()]
    if not visible:
        return None
    width, height = style.PANEL_SIZE
    if axis.apart and len(visible) > 1:
        draw, size = _draw_apart, (1.6 * width, height)
    else:
        # Two rows of names fit into the usual height.
        room = legend.measure_height([*(curve.label for curve in visible), *filter(None, axis.rules.values())], width)
        draw, size = _draw_curves, (width, height + max(0.0, room - legend.measure_height("ab", 0)))
    along_depth = axis.x in _DEPTHS
    return Panel(
        name,
        partial(draw, curves=visible, axis=axis),
        describe_curves(visible, axis),
        size,
        (Shared(name, f"curves {name}", (visible, axis), join_runs),) if along_depth else (),
        draw_one=partial(_draw_curves, curves=visible, axis=axis),
        cut=partial(_cut_panel, name=name, curves=visible, axis=axis) if along_depth else None,
    )


def _cut_panel(blocks: range, name: str, curves: Sequence[Series], axis: Axis) -> Panel | None:
    return make_panel(name, cut_curves(curves, axis, blocks), axis)


def curves_of(line_panel: Panel) -> tuple[Sequence[Series], Axis]:
    """Return the curves of a panel along the depth with their axes; no curve for other panels."""
    contents = (shared.content for shared in line_panel.shared if shared.together is join_runs)
    return next(contents, ((), Axis("", "", "")))


class Number(TypedDict):
    """One curve at one block or boundary.

    ``low`` and ``high`` are the edges of its band, which the caption explains; NaN without a band.
    """

    variable: str
    what: str
    place: int
    mean: float
    low: float
    high: float
    units: str


def numbers(drawing: Drawing, data: xr.Dataset) -> Iterator[Number]:
    """Yield a row for every curve and place along the depth, as drawn; none for maps.

    Args:
        data: the drawn dataset, which has the units.
    """
    for line_panel in drawing.panels:
        curves, axis = curves_of(line_panel)
        for curve in curves:
            units = str(data[curve.name].attrs.get("units", "")) if curve.name in data else "1"
            none = [math.nan] * len(curve.x)
            ends = (none if end is None else end for end in (curve.summary.low, curve.summary.high))
            for place, mean, low, high in zip(curve.x, curve.summary.mean, *ends, strict=True):
                yield Number(
                    variable=curve.name or line_panel.name,
                    what=f"{axis.title}: {curve.label}",
                    place=int(place),
                    mean=float(mean),
                    low=float(low),
                    high=float(high),
                    units=units,
                )


def select_curve(line_panel: Panel, name: str) -> Panel | None:
    """Return a panel of one variable's curve, under the variable's name; None without such a curve."""
    curves, axis = curves_of(line_panel)
    return make_panel(name, [curve for curve in curves if curve.name == name], axis)


def look_like(line_panel: Panel, number: int) -> Panel:
    """Return the panel with the looks of later series: behind this many that its axes hold, none looks like another."""
    curves, axis = curves_of(line_panel)
    if not number or not curves:
        return line_panel
    later = [replace(curve, look=nth_look(number + place)) for place, curve in enumerate(curves)]
    return make_panel(line_panel.name, later, axis) or line_panel


def name_curves(line_panel: Panel, names: Sequence[str]) -> Panel:
    """Return a panel whose curves have these names, in their order."""
    curves, axis = curves_of(line_panel)
    named = [replace(curve, label=name) for curve, name in zip(curves, names, strict=True)]
    return make_panel(line_panel.name, named, axis) or line_panel


def _draw_curves(figure: FigureBase, curves: Sequence[Series], axis: Axis) -> None:
    ax = figure.subplots()
    fill_axes(ax, curves, axis, is_logarithmic(curves, axis))
    ax.set_title(axis.title)
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) > 1:
        legend.draw_legend(figure, handles, labels)


def _draw_apart(figure: FigureBase, curves: Sequence[Series], axis: Axis) -> None:
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for ax, curve in zip(axes, curves):
        for other in curves:
            if other is not curve:
                ax.plot(other.x, other.summary.mean, "-", color=style.GRID, zorder=1)
        draw_series(ax, curve)
        block_axis(ax, axis.x, curve.x.min(), curve.x.max())
        ax.set_title(curve.label, fontweight="normal")
    axes[0].set_ylabel(axis.y)
    head_figure(figure, axis.title)
