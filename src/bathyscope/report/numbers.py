"""The numbers behind a figure's curves: means and bands as they are drawn, whatever prompts weigh there."""

import math
from collections.abc import Iterator
from typing import TypedDict

import xarray as xr

from bathyscope.report.figures.kind import Drawing
from bathyscope.report.figures.lines import curves_of


class Row(TypedDict):
    """One curve at one block or boundary.

    ``low`` and ``high`` are the edges of its band, which the caption explains; NaN where it has none.
    """

    variable: str
    what: str
    place: int
    mean: float
    low: float
    high: float
    units: str


def numbers(drawing: Drawing, data: xr.Dataset) -> Iterator[Row]:
    """A row for every curve along the depth and place, curve after curve; none for maps.

    Args:
        data: what was drawn from, which knows the units.
    """
    for panel in drawing.panels:
        curves, axis = curves_of(panel)
        for curve in curves:
            units = str(data[curve.name].attrs.get("units", "")) if curve.name in data else "1"
            none = [math.nan] * len(curve.x)
            ends = (none if end is None else end for end in (curve.summary.low, curve.summary.high))
            for place, mean, low, high in zip(curve.x, curve.summary.mean, *ends, strict=True):
                yield Row(
                    variable=curve.name or panel.name,
                    what=f"{axis.title}: {curve.label}",
                    place=int(place),
                    mean=float(mean),
                    low=float(low),
                    high=float(high),
                    units=units,
                )
