"""The figure of a measure that has none of its own: pictures chosen by the dimensions of its variables.

A number for each prompt gives dots; what is left of the dimensions once prompts are averaged gives a line where it is
one and a heat map where there are two; values for each token give maps of single prompts. Dimensions whose places have
names in place of numbers (parts, norms, reductions) give a line or a picture for each name.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import multiples, strip
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import PLACES, Axis, Curve, looks, panel, series, unit
from bathyscope.pages.figures.kit.strip import Row, Scale
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.kit.token_map import Reading, token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run
from bathyscope.statistics.reduce import weighted_mean

_NAMES_SHOWN: Final = 6
"""Lines or pictures of one variable, at most; more could not be told apart."""


def figure(measure: str) -> FigureKind:
    """The figure of any measure."""
    heading = measure.replace("_", " ")
    return FigureKind(measure, heading[:1].upper() + heading[1:], (), partial(_make, measure))


def _make(measure: str, run: Run, options: FigureOptions) -> Drawing:
    data = run[measure]
    prompts = data.sizes.get("prompt", 1)
    panels: list[Panel] = []
    said = ["Drawn by the dimensions of its variables.", describe(options, prompts)]
    for name in map(str, data.data_vars):
        values = data[name]
        if values.dtype.kind not in "fiub" or not values.size or not np.isfinite(values.astype(float)).any():
            continue
        if not values.dims:
            said.append(f"{_title(values)}: {values.item():.4g} {unit(values)}.")
        elif {"prompt", "token"} <= set(values.dims) and "n_tokens" in data.coords:
            made, shown = _token_maps(data, name, options)
            panels += made
            said.append(shown)
        else:
            panels += [one for one in _pictures(data, name, options) if one is not None]
    return Drawing(panels, " ".join(part for part in said if part))


def _pictures(data: xr.Dataset, name: str, options: FigureOptions) -> Iterator[Panel | None]:
    """Of one variable: dots, lines, or a heat map for each name along its named dimensions."""
    counted = [dim for dim in map(str, data[name].dims) if dim != "prompt" and not _is_named(data[name], dim)]
    variants = list(islice(_variants(data[[name]], name), _NAMES_SHOWN))
    if not counted:
        yield _dots(variants, name, options)
    elif len(counted) == 1:
        yield _lines(variants, name, options)
    else:
        yield from (_map(one, name, label, options) for label, one in variants)


def _variants(data: xr.Dataset, name: str) -> Iterator[tuple[str, xr.Dataset]]:
    """The variable for each combination of names, and of places along all but the last two counted dimensions."""
    dims = [dim for dim in map(str, data[name].dims) if dim != "prompt"]
    counted = [dim for dim in dims if not _is_named(data[name], dim)]
    fixed = [dim for dim in dims if dim not in counted[-2:]]
    for places in product(*(range(data.sizes[dim]) for dim in fixed)):
        one = data.isel(dict(zip(fixed, places)))
        label = ", ".join(_said(data, dim, place) for dim, place in zip(fixed, places))
        if np.isfinite(one[name].values.astype(float)).any():
            yield label, one


def _dots(variants: list[tuple[str, xr.Dataset]], name: str, options: FigureOptions) -> Panel | None:
    first = variants[0][1]
    if "prompt" not in first[name].dims:
        return None
    values = np.concatenate([one[name].values.astype(float) for _, one in variants])
    low, high = min(float(np.nanmin(values)), 0.0), float(np.nanmax(values))
    rows = [Row(label or name.replace("_", " "), one[name].astype(float)) for label, one in variants]
    scale = Scale(
        _title(first[name]), f"{name.replace('_', ' ')} ({unit(first[name])})", low, high if high > low else 1
    )
    return strip.panel(name, rows, scale, options)


def _lines(variants: list[tuple[str, xr.Dataset]], name: str, options: FigureOptions) -> Panel | None:
    curves = []
    for (label, one), look in zip(variants, looks(len(variants))):
        weighed = "prompt" not in one[name].dims or "n_tokens" in one.coords
        drawn = one.astype(float) if weighed else one.mean("prompt")
        curves.append(series(drawn, Curve(name, label, look), options))
    values = variants[0][1][name]
    (place,) = (str(dim) for dim in values.dims if dim != "prompt")
    return panel(name, curves, Axis(_title(values), _place(place), _quantity(values, name), "auto"))


def _map(one: xr.Dataset, name: str, label: str, options: FigureOptions) -> Panel:
    values, over = one[name], "prompts"
    rows, columns = (str(dim) for dim in values.dims if dim != "prompt")
    shown = values.transpose(..., rows, columns).values.astype(float)
    if "prompt" in values.dims:
        over = "tokens" if "n_tokens" in one.coords and options.weighting == "tokens" else over
        shown = weighted_mean(shown, token_weights(one, name) if over == "tokens" else np.ones(len(shown)))
    signed = bool((shown[np.isfinite(shown)] < 0).any())
    heat = HeatMap(
        values=shown,
        title=f"{_title(values)}{f', {label}' if label else ''}",
        rows=_side(rows),
        columns=_side(columns),
        quantity=f"{_quantity(values, name)}, mean over {over}" if "prompt" in values.dims else _quantity(values, name),
        short=name.replace("_", " "),
        colours=Colours.spanning(shown, "signed" if signed else options.scale),
    )
    return multiples.alone("-".join([name, *label.split()]), heat)


def _token_maps(data: xr.Dataset, name: str, options: FigureOptions) -> tuple[list[Panel], str]:
    values = data[name]
    others = [str(dim) for dim in values.dims if dim not in ("prompt", "token")]
    if len(others) != 1:
        return [], f"{_title(values)} has too many dimensions to be drawn: {', '.join(map(str, values.dims))}."
    signed = bool((values < 0).any())
    rows, colours = _side(others[0]), "signed" if signed else options.scale
    reading = Reading(values, _title(values), rows, _quantity(values, name), name.replace("_", " "), colours)
    panels, said = token_panels(data, {name: reading}, options, "have no values", last=True)
    return [replace(one, name=f"{name}_{one.name}") for one in panels], said


def _is_named(values: xr.DataArray, dim: str) -> bool:
    return values[dim].dtype.kind not in "fiu"


def _said(data: xr.Dataset, dim: str, place: int) -> str:
    named = data[dim].values[place]
    return str(named) if _is_named(data[dim], dim) else f"{dim} {named}"


def _title(values: xr.DataArray) -> str:
    title = str(values.attrs.get("long_name") or str(values.name).replace("_", " "))
    return title[:1].upper() + title[1:]


def _quantity(values: xr.DataArray, name: str) -> str:
    return f"{name.replace('_', ' ')} ({unit(values)})"


def _side(dim: str) -> Side:
    return Side(_place(dim), _place(dim).split(" (")[0])


def _place(dim: str) -> str:
    return PLACES.get(dim, f"{dim.replace('_', ' ')} (index)")
