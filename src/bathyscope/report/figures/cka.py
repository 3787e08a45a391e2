"""CKA: how similar the representations at every two boundaries are. Source: lad2024, representational similarity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.report.figures import style
from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.heat_map import HeatMap, Side, describe_largest, draw_colour_bar, draw_heat
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.lines import BOUNDARY_LABEL, Axis, Look, Series
from bathyscope.report.figures.lines import panel as line_panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import Summary

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_KINDS: Final = {
    "last": ("last tokens of prompts", Look(style.VERMILION, "s", "--")),
    "all": ("tokens", Look(style.BLUE, "o")),
    "rest": ("tokens but the first", Look(style.GREEN, "D", ":")),
}


def maps(run: Run, options: FigureOptions) -> dict[str, HeatMap]:
    """One map for each kind of points that has a value."""
    data = run["cka"]
    found = {str(kind): _map(data["cka"].sel(tokens=kind), str(kind)) for kind in data["tokens"].values}
    return {kind: shown for kind, shown in found.items() if shown.seen.size}


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """The maps, and the similarity of neighbouring boundaries with its interval."""
    made = [
        Panel(kind, partial(_draw, shown=shown), _alt(shown), style.MAP_SIZE)
        for kind, shown in maps(run, options).items()
    ]
    curves = [_neighbours(run["cka"], kind, options) for kind in maps(run, options)]
    axis = Axis("Similarity of neighbouring boundaries", BOUNDARY_LABEL, "CKA of boundaries b, b+1 (dimensionless)")
    neighbours = line_panel("neighbours", curves, axis)
    return [*made, *([neighbours] if neighbours is not None else [])]


def note(run: Run, options: FigureOptions) -> str:
    """What CKA says, of which points, what the bands are, and how sure the maps are."""
    data = run["cka"]
    reach = (data["ci_high"] - data["ci_low"]).where(data["boundary"] < data["boundary_other"]) / 2
    said = (
        "Colour: how similar the geometry of the same points is at two boundaries, by unbiased linear CKA (1: the same "
        "up to rotation and scale; estimates of little similarity may fall below 0). Points: the prompts' last tokens, "
        "tokens drawn from all prompts, and these without the first of each prompt, which is often an attention sink "
        "so large that it settles the result alone."
    )
    if options.band != "none" and bool(reach.notnull().any()):
        level = 100 * float(data["ci_low"].attrs["level"])
        said += f" Bands: {level:g} % intervals over prompts; half a typical interval in the maps: {_typical(reach)}."
    return said


def _typical(reach: xr.DataArray) -> str:
    return ", ".join(
        f"{float(reach.sel(tokens=kind).median()):.2g} ({_KINDS[str(kind)][0]})" for kind in reach["tokens"].values
    )


def _map(values: xr.DataArray, kind: str) -> HeatMap:
    array = values.transpose("boundary", "boundary_other").values
    return HeatMap(
        values=array,
        title=f"CKA of boundaries, {_KINDS[kind][0]}",
        rows=Side(BOUNDARY_LABEL, "boundary"),
        columns=Side(BOUNDARY_LABEL, "boundary"),
        quantity="CKA (dimensionless)",
        short="CKA",
        colours=Colours("linear", 0.0, max(1.0, float(np.nanmax(array, initial=1.0))), clips=False),
    )


def _neighbours(data: xr.Dataset, kind: str, options: FigureOptions) -> Series:
    label, look = _KINDS[kind]
    first = data["boundary"].values[:-1]
    value, low, high = (
        np.diagonal(data[name].sel(tokens=kind).transpose("boundary", "boundary_other").values, 1)
        for name in ("cka", "ci_low", "ci_high")
    )
    band = (None, None) if options.band == "none" else (low, high)
    return Series(label, first, Summary(value, *band), look)


def _draw(figure: FigureBase, shown: HeatMap) -> None:
    ax = figure.subplots()
    draw_colour_bar(figure, draw_heat(ax, shown), [shown], [ax])


def _alt(shown: HeatMap) -> str:
    n = len(shown.values)
    return f"Heat map of {n} by {n} boundaries. {shown.title}: {describe_largest(shown)}."


FIGURE: Final = FigureKind(
    name="cka",
    measure="cka",
    heading="Similarity of representations",
    needs=("cka",),
    panels=panels,
    note=note,
    maps=maps,
)
draw, caption = FIGURE.draw, FIGURE.caption
