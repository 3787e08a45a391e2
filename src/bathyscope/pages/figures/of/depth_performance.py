"""Depth against performance: each model's score over its layers, covariates held constant, with the confidence band.

Drawn from the result of ``bathyscope.depth_performance``.
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.analysis.performance import counted
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.series import looks

_LEGEND_COLUMNS: Final = 3


def drawing(data: xr.Dataset) -> Drawing:
    """Draw the partial-regression plot under a caption."""
    constants = [*data["term"].values[2:], *(["family"] if data.attrs["fixed_effects"] else [])]
    slope = data.sel(term="layers", errors="plain")
    constant = f", {' and '.join(constants)} held constant" if constants else ""
    note = (
        f"{data.attrs['score']} against layers{constant}: {counted(data)}. "
        f"Line: the regression, {_slope_text(slope)}; "
        f"filled: its {level_text(data.attrs['level'])} confidence band (of the mean response, not of single models); "
        "dashed: the band with errors robust against unequal variances (HC3)."
    )
    rows = -(-len(set(data["family"].values.tolist())) // _LEGEND_COLUMNS)
    size = (style.PANEL_SIZE[0] + 1.2, style.PANEL_SIZE[1] + 0.4 + 0.18 * rows)
    return Drawing([Panel("regression", partial(_draw_regression, data=data), _describe_regression(data), size)], note)


def _draw_regression(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    layers = data["point"].values
    band = data.sel(errors="plain")
    ax.fill_between(layers, band["band_low"], band["band_high"], color=style.MUTED, alpha=0.22, linewidth=0)
    robust = data.sel(errors="hc3")
    for end in ("band_low", "band_high"):
        ax.plot(layers, robust[end], **style.BROKEN)
    ax.plot(layers, data["mean_response"], color=style.INK)
    families = dict.fromkeys(data["family"].values.tolist())
    for family, look in zip(families, looks(len(families))):
        family_models = data.isel(model=np.flatnonzero(data["family"].values == family))
        ax.plot(
            family_models["adjusted_layers"],
            family_models["adjusted_score"],
            look.marker,
            color=look.colour,
            markersize=5,
            label=family,
        )
    is_adjusted = data.sizes["term"] > 2 or data.attrs["fixed_effects"]
    adjusted = ", adjusted" if is_adjusted else ""
    ax.set(xlabel=f"number of layers{adjusted}", ylabel=f"{data.attrs['score']}{adjusted}")
    ax.set_title("Performance against depth")
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)


def _describe_regression(data: xr.Dataset) -> str:
    slope = data.sel(term="layers", errors="plain")
    ends = data["mean_response"].values[[0, -1]]
    layers = data["point"].values[[0, -1]]
    return (
        f"Scatter plot of {data.attrs['models']} models with a straight line from {ends[0]:.3g} at {layers[0]:g} "
        f"layers to {ends[1]:.3g} at {layers[1]:g}: {_slope_text(slope)}, with the confidence band "
        "around it."
    )


def _slope_text(slope: xr.Dataset) -> str:
    return Estimate.of(slope, "coefficient", "ci").write("+.3g", " for each layer")
