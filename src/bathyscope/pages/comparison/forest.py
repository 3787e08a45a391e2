"""Forest plot: the difference of every estimator with its interval, one panel for each comparison.

Source: hu2025, effective depth compared between models and data sets.
"""

import textwrap
from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bathyscope.analysis.depths import Comparison
from bathyscope.analysis.depths.tables import title
from bathyscope.core.estimates import Estimate, write_signed
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.forest import EstimateRow, draw_rows
from bathyscope.prompts.parts import resampled
from bathyscope.runs.depth_table import estimator_name

_ROW_INCHES: Final = 0.26
_FRAME_INCHES: Final = 1.5
_TITLE_LETTERS: Final = 52


def drawing(comparison: Comparison) -> Drawing:
    """Draw one panel for each comparison in which an estimator has a difference."""
    panels: list[Panel] = []
    for number in range(comparison.data.sizes["comparison"]):
        differences = comparison.data.isel(comparison=number)
        differences = differences.isel(estimator=differences["difference"].notnull().values)
        if differences.sizes["estimator"]:
            size = (style.PANEL_SIZE[0] + 0.6, _FRAME_INCHES + _ROW_INCHES * differences.sizes["estimator"])
            panels.append(
                Panel(
                    f"forest-{number}",
                    partial(_draw_forest, differences=differences, axis=comparison.quantity),
                    _describe_forest(differences),
                    size,
                )
            )
    note = (
        f"Dots: {comparison.quantity}; whiskers: {level_text(comparison.level)} bootstrap intervals over "
        f"{resampled(comparison.data.attrs.get('cluster'))}. Filled: "
        f"the interval excludes 0. {comparison.summary()}"
    )
    return Drawing(panels, note, heading="Differences")


def _draw_forest(figure: FigureBase, differences: xr.Dataset, axis: str) -> None:
    ax = figure.subplots()
    ax.axvline(0, color=style.INK, linewidth=0.8)
    draw_rows(ax, _list_rows(differences), size=6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6))
    ax.set_xlabel(axis)
    heading = textwrap.fill(title(differences), _TITLE_LETTERS)
    # The names of two models are longer than an axes' title may be: the heading starts at the edge of the picture,
    # above the names of the estimators.
    head_figure(figure, heading)
    looks = {
        "interval excludes 0": (style.VERMILION, style.VERMILION),
        "interval includes 0, or is missing": (style.MUTED, style.PAPER),
    }
    handles = [
        Line2D([], [], color=colour, marker="o", markerfacecolor=face, markersize=6, label=label)
        for label, (colour, face) in looks.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _list_rows(differences: xr.Dataset) -> list[EstimateRow]:
    rows = []
    for name in differences["estimator"].values:
        value, low, high = (float(differences[end].sel(estimator=name)) for end in ("difference", "ci_low", "ci_high"))
        clear = low > 0 or high < 0
        colour = style.VERMILION if clear else style.MUTED
        rows.append(EstimateRow(estimator_name(str(name)), colour, value, low, high, "o", hollow=not clear))
    return rows


def _describe_forest(comparison: xr.Dataset) -> str:
    differences = [
        f"{row.label} {Estimate(row.value, row.low, row.high).write(write_signed)}" for row in _list_rows(comparison)
    ]
    return f"Forest plot, {title(comparison)}: {'; '.join(differences)}."
