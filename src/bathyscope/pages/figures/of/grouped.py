"""Depth by group of prompts: every estimator on every group, with intervals.

Drawn from the result of ``bathyscope.group``. Source: hu2025 (effective depth); csordas2025 (depth score).
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from bathyscope.analysis.depths.grouping import SHARE
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import elided, level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.forest import name_rows
from bathyscope.pages.figures.kit.series import looks
from bathyscope.prompts.parts import resampled
from bathyscope.runs.depth_table import estimator_name

_POINT_INCHES: Final = 0.13
_GAP_INCHES: Final = 0.12
_FRAME_INCHES: Final = 1.5
_LEGEND_COLUMNS: Final = 4
_NAME_LETTERS: Final = 24


def drawing(data: xr.Dataset) -> Drawing:
    """Draw the estimators of all groups under a caption."""
    tested = np.isfinite(data["p_value"].values)
    tests = int(tested.sum())
    below = int((data["p_holm"].values[tested] < 1 - data.attrs["level"]).sum())
    note = (
        f"Effective depth ratio, blocks done/L, by {data.attrs['by']}. Dots: each group's own estimate; whiskers: "
        f"{level_text(data.attrs['level'])} bootstrap intervals over "
        f"its {resampled(data.attrs.get('cluster'))}. After Holm's correction {below} of {tests} "
        f"differences between groups have a p-value below {1 - data.attrs['level']:.2g}. {data.attrs['run']}"
    )
    inches = _GAP_INCHES + _POINT_INCHES * data.sizes["group"]
    size = (style.PANEL_SIZE[0] + 1.4, _FRAME_INCHES + inches * data.sizes["estimator"])
    return Drawing([Panel("groups", partial(_draw_groups, data=data), _describe_groups(data), size)], note)


def _draw_groups(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    lines, groups = np.arange(data.sizes["estimator"]), data.sizes["group"]
    step = _POINT_INCHES / (_GAP_INCHES + _POINT_INCHES * groups)
    named = zip(data["group"].values, data["prompts"].values, looks(groups))
    for number, (name, prompts, look) in enumerate(named):
        estimates = data.sel(group=name)
        places = lines + step * (number - (groups - 1) / 2)
        ax.hlines(places, estimates["ci_low"], estimates["ci_high"], color=look.colour, linewidth=2, alpha=0.6)
        label = f"{elided(name, _NAME_LETTERS)} ({prompts})"
        ax.plot(estimates["value"], places, look.marker, color=look.colour, markersize=5, label=label)
    name_rows(ax, [estimator_name(str(name)) for name in data["estimator"].values])
    for place in lines[1:]:
        ax.axhline(place - 0.5, color=style.GRID, linewidth=0.6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6))
    share = " (deep-thinking ratio: share of tokens)" if SHARE in data["estimator"].values else ""
    by = elided(data.attrs["by"], _NAME_LETTERS)
    ax.set(xlabel=f"effective depth ratio{share}", title=f"Depth by {by}")
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS, title=f"{by} (prompts)")


def _describe_groups(data: xr.Dataset) -> str:
    descriptions = []
    for name in data["estimator"].values:
        estimates = data.sel(estimator=name)
        columns = (estimates[column].values for column in ("value", "ci_low", "ci_high"))
        values = ", ".join(
            f"{group} {Estimate(value, low, high):.2f}"
            for group, value, low, high in zip(data["group"].values, *columns)
            if np.isfinite(value)
        )
        descriptions.append(f"{estimator_name(str(name))}: {values or 'no estimate'}")
    return f"Dots with intervals, effective depth ratio by {data.attrs['by']}. {'; '.join(descriptions)}."
