"""CKA: how similar the representations at any two boundaries are. Source: lad2024, representational similarity."""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import make_panel as line_panel
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Look, Series
from bathyscope.pages.figures.kit.summary import Summary
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_KINDS: Final = {
    "last": ("last tokens of prompts", Look(style.VERMILION, "s", "--")),
    "all": ("tokens", Look(style.BLUE, "o")),
    "rest": ("tokens but the first", Look(style.GREEN, "D", ":")),
}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw a map for each kind of points with a value, and the similarity of neighbouring boundaries."""
    data = run["cka"]
    maps = {str(kind): _make_map(data["cka"].sel(tokens=kind), str(kind)) for kind in data["tokens"].values}
    maps = {kind: heat for kind, heat in maps.items() if heat.seen.size}
    axis = Axis("Similarity of neighbouring boundaries", BOUNDARY_LABEL, "CKA of b and b+1 (dimensionless)")
    neighbours = line_panel("neighbours", [_compare_neighbours(data, kind, options) for kind in maps], axis)
    panels = [*(multiples.make_map_panel(kind, heat) for kind, heat in maps.items()), neighbours]
    return Drawing(drop_empty(panels), _write_note(data, options))


def _write_note(data: xr.Dataset, options: FigureOptions) -> str:
    """Write what CKA says, of which points, what the bands are, and how precise the maps are."""
    # The matrix is symmetric, and a boundary is always identical to itself: only one triangle counts.
    reach = (data["ci_high"] - data["ci_low"]).where(data["boundary"] < data["boundary_other"]) / 2
    note = (
        "Colour: how similar the geometry of the same points is at two boundaries, by unbiased linear CKA (1: the same "
        "up to rotation and scale; estimates of low similarity may fall below 0). Points: the prompts' last tokens, "
        "a sample of tokens from all prompts, and the sample without first tokens, which are often attention sinks "
        "so large that they alone decide the result."
    )
    if options.band != "none" and bool(reach.notnull().any()):
        level = 100 * float(data["ci_low"].attrs["level"])
        medians = reach.to_series().dropna().groupby("tokens", sort=False).median()
        typical = ", ".join(f"{median:.2g} ({_KINDS[str(kind)][0]})" for kind, median in medians.items())
        note += f" Bands: {level:g} % intervals over prompts; half a typical interval in the maps: {typical}."
    return note


def _make_map(values: xr.DataArray, kind: str) -> HeatMap:
    array = values.transpose("boundary", "boundary_other").values
    return HeatMap(
        values=array,
        title=f"CKA of boundaries, {_KINDS[kind][0]}",
        rows=Side(BOUNDARY_LABEL, "boundary"),
        columns=Side(BOUNDARY_LABEL, "boundary"),
        quantity="CKA (dimensionless)",
        short="CKA",
        # Unbiased estimates may exceed 1, and such cells must not be clipped silently.
        colours=Colours("linear", 0.0, max(1.0, float(np.nanmax(array, initial=1.0))), clips=False),
    )


def _compare_neighbours(data: xr.Dataset, kind: str, options: FigureOptions) -> Series:
    label, look = _KINDS[kind]
    first = data["boundary"].values[:-1]
    value, low, high = (
        np.diagonal(data[name].sel(tokens=kind).transpose("boundary", "boundary_other").values, 1)
        for name in ("cka", "ci_low", "ci_high")
    )
    band = (None, None) if options.band == "none" else (low, high)
    return Series(label, first, Summary(value, *band), look)


FIGURE: Final = FigureKind("cka", "Similarity of representations", ("cka",), _make_drawing)
