"""Forest plot: the difference of every estimator with its interval, one panel a comparison.

Source: hu2025, effective depth compared between models and data sets.
"""

import math
import textwrap
from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bathyscope.analysis.depths import Comparison
from bathyscope.pages.comparison.table import signed, title
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.forest import Row, draw_rows
from bathyscope.pages.table import estimator_name
from bathyscope.prompts.parts import resampled

_ROW_INCHES: Final = 0.26
_FRAME_INCHES: Final = 1.5
_TITLE_LETTERS: Final = 52


def drawing(comparison: Comparison) -> Drawing:
    """One panel for each comparison in which any estimator has a difference."""
    made: list[Panel] = []
    for number in range(comparison.data.sizes["comparison"]):
        one = comparison.data.isel(comparison=number)
        one = one.isel(estimator=one["difference"].notnull().values)
        if one.sizes["estimator"]:
            size = (style.PANEL_SIZE[0] + 0.6, _FRAME_INCHES + _ROW_INCHES * one.sizes["estimator"])
            made.append(Panel(f"forest-{number}", partial(_draw, one=one, axis=comparison.quantity), _alt(one), size))
    note = (
        f"Dots: {comparison.quantity}; whiskers: {comparison.level:.0%} bootstrap intervals over "
        f"{resampled(comparison.data.attrs.get('cluster'))}. Filled: "
        f"the interval excludes 0. {comparison.summary()}"
    )
    return Drawing(made, note, heading="Differences")


def _draw(figure: FigureBase, one: xr.Dataset, axis: str) -> None:
    ax = figure.subplots()
    ax.axvline(0, color=style.INK, linewidth=0.8)
    draw_rows(ax, _rows(one), size=6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6))
    ax.set_xlabel(axis)
    said = textwrap.fill(title(one), _TITLE_LETTERS)
    # from the picture's edge: beside the names of estimators there is too little room for those of two models
    figure.suptitle(said, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    looks = {
        "interval excludes 0": (style.VERMILION, style.VERMILION),
        "interval holds 0, or there is none": (style.MUTED, style.PAPER),
    }
    handles = [
        Line2D([], [], color=colour, marker="o", markerfacecolor=face, markersize=6, label=label)
        for label, (colour, face) in looks.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _rows(one: xr.Dataset) -> list[Row]:
    rows = []
    for name in one["estimator"].values:
        value, low, high = (float(one[end].sel(estimator=name)) for end in ("difference", "ci_low", "ci_high"))
        clear = low > 0 or high < 0
        colour = style.VERMILION if clear else style.MUTED
        rows.append(Row(estimator_name(str(name)), colour, value, low, high, "o", hollow=not clear))
    return rows


def _alt(one: xr.Dataset) -> str:
    differences = [f"{row.label} {signed(row.value)} ({_interval(row)})" for row in _rows(one)]
    return f"Forest plot, {title(one)}: {'; '.join(differences)}."


def _interval(row: Row) -> str:
    return "no interval" if math.isnan(row.low) else f"{signed(row.low)} to {signed(row.high)}"
