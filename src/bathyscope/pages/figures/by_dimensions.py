"""The figure of a measure that declares none: pictures chosen by the dimensions of its variables.

A number for each prompt gives dots. After averaging over prompts, one remaining dimension gives a line, and two give a
heat map. Values for each token give maps of single prompts. Dimensions with names instead of numbers (parts, norms,
reductions) give a line or a picture for each name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.text import capitalised
from bathyscope.labels import token_weights
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import multiples, strip
from bathyscope.pages.figures.kit.colours import Colours, Kind, choose_scale
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import curves_of, make_panel, unit
from bathyscope.pages.figures.kit.series import PLACES, Axis, Curve, looks, summarise_curve
from bathyscope.pages.figures.kit.strip import PromptValues, Scale
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.kit.token_map import TokenGrid, make_token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run
from bathyscope.statistics.reduce import weighted_mean

_NAMES_SHOWN: Final = 6
"""Lines or pictures of one variable, at most; more could not be distinguished."""


def figure(measure: str, panels: Mapping[str, tuple[str, ...]] | None = None, summary: str = "") -> FigureKind:
    """Return the figure of a measure that has none of its own.

    Args:
        panels: name → the variables that it shows; None = a panel for each variable.
        summary: what is measured, in one sentence, for the caption; empty where nobody says it.
    """
    variables = tuple(name for names in (panels or {}).values() for name in names)
    return FigureKind(measure, _in_words(measure), variables, partial(_make_drawing, measure, panels, summary))


def _make_drawing(
    measure: str, chosen: Mapping[str, tuple[str, ...]] | None, summary: str, run: Run, options: FigureOptions
) -> Drawing:
    data = run[measure]
    groups = {str(name): (str(name),) for name in data.data_vars} if chosen is None else chosen
    panels: list[Panel] = []
    in_run = [variable for variables in groups.values() for variable in variables if variable in data]
    sentences = [
        summary or "Drawn by the dimensions of its variables.",
        *_describe_formulas(data[in_run]),
        describe(options, data.sizes.get("prompt", 1)),
    ]
    for name, variables in groups.items():
        drawings = [draw_variable(data, variable, options) for variable in variables if variable in data]
        variable_panels = [panel for own_panels, _ in drawings for panel in own_panels]
        panels += variable_panels if chosen is None else _name_panels(name, variable_panels)
        sentences += [sentence for _, sentence in drawings]
    return Drawing(panels, " ".join(part for part in sentences if part))


def _describe_formulas(data: xr.Dataset) -> list[str]:
    """Return a sentence for each formula, with the variables that it is of."""
    names_by_formula: dict[str, list[str]] = {}
    for values in data.data_vars.values():
        names_by_formula.setdefault(str(values.attrs.get("formula") or ""), []).append(_name_variable(values))
    formulas = [(formula, _in_words(", ".join(names))) for formula, names in names_by_formula.items() if formula]
    return [f"{names}: {formula}." for formula, names in formulas[:_NAMES_SHOWN]]


def place_panels(data: xr.Dataset, names: tuple[str, ...], options: FigureOptions) -> list[Panel]:
    """Return a panel for each of the variables that a run has by named place, with a curve for each place."""
    return [panel for name in names if name in data for panel in draw_variable(data, name, options)[0]]


def draw_variable(data: xr.Dataset, name: str, options: FigureOptions) -> tuple[list[Panel], str]:
    """Make the panels of one variable, and the sentence of the caption that it needs."""
    values = data[name]
    # Variables of text, and variables without any number, have nothing to draw.
    if values.dtype.kind not in "fiub" or not values.size or not np.isfinite(values.astype(float)).any():
        return [], ""
    if not values.dims:
        return [], f"{_title_variable(values)}: {values.item():.4g} {unit(values)}."
    if {"prompt", "token"} <= set(values.dims) and "n_tokens" in data.coords:
        return _make_token_panels(data, name, options)
    return drop_empty(_make_panels(data, name, options)), ""


def _name_panels(name: str, panels: list[Panel]) -> list[Panel]:
    """Give a panel its listed name; curves of one kind that are listed together become one panel."""
    contents = [curves_of(panel) for panel in panels]
    kinds = {(axis.x, axis.y.rpartition(" (")[2]) for _, axis in contents}
    if panels and len(kinds) == 1 and all(len(curves) == 1 for curves, _ in contents):
        axis = contents[0][1]
        if len(panels) > 1:
            curves = [
                replace(curve, label=own_axis.title, look=look)
                for ((curve,), own_axis), look in zip(contents, looks(len(contents)))
            ]
            axis = replace(axis, title=_in_words(name), y=f"{name.replace('_', ' ')} ({axis.y.rpartition(' (')[2]}")
        else:
            curves = list(contents[0][0])
        return drop_empty([make_panel(name, curves, axis)])
    return [replace(panels[0], name=name)] if len(panels) == 1 else panels


def _make_panels(data: xr.Dataset, name: str, options: FigureOptions) -> Iterator[Panel | None]:
    """Make the panels of one variable: dots, lines, or a heat map for each combination of names."""
    counted = [dim for dim in map(str, data[name].dims) if dim != "prompt" and not _is_named(data[name], dim)]
    variants = list(islice(_split_variants(data[[name]], name), _NAMES_SHOWN))
    if not counted:
        yield _make_dot_panel(variants, name, options)
    elif len(counted) == 1:
        yield _make_line_panel(variants, name, options)
    else:
        yield from (_make_map_panel(variant, name, label, options) for label, variant in variants)


def _split_variants(data: xr.Dataset, name: str) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the variable for each combination of names and of outer dimensions; two dimensions remain."""
    dims = [dim for dim in map(str, data[name].dims) if dim != "prompt"]
    counted = [dim for dim in dims if not _is_named(data[name], dim)]
    fixed = [dim for dim in dims if dim not in counted[-2:]]
    for places in product(*(range(data.sizes[dim]) for dim in fixed)):
        variant = data.isel(dict(zip(fixed, places)))
        label = ", ".join(_name_place(data, dim, place) for dim, place in zip(fixed, places))
        if np.isfinite(variant[name].values.astype(float)).any():
            yield label, variant


def _make_dot_panel(variants: list[tuple[str, xr.Dataset]], name: str, options: FigureOptions) -> Panel | None:
    first = variants[0][1]
    if "prompt" not in first[name].dims:
        return None
    values = np.concatenate([variant[name].values.astype(float) for _, variant in variants])
    low, high = min(float(np.nanmin(values)), 0.0), float(np.nanmax(values))
    rows = [PromptValues(label or name.replace("_", " "), variant[name].astype(float)) for label, variant in variants]
    scale = Scale(
        _title_variable(first[name]), f"{name.replace('_', ' ')} ({unit(first[name])})", low, high if high > low else 1
    )
    return strip.make_panel(name, rows, scale, options)


def _make_line_panel(variants: list[tuple[str, xr.Dataset]], name: str, options: FigureOptions) -> Panel | None:
    curves = []
    for (label, variant), look in zip(variants, looks(len(variants))):
        # Without counts of tokens there are no weights; then only the plain mean over prompts is known.
        weighed = "prompt" not in variant[name].dims or "n_tokens" in variant.coords
        curve_data = variant.astype(float) if weighed else variant.mean("prompt")
        curves.append(summarise_curve(curve_data, Curve(name, label, look), options))
    values = variants[0][1][name]
    (place,) = (str(dim) for dim in values.dims if dim != "prompt")
    return make_panel(
        name, curves, Axis(_title_variable(values), _label_dimension(place), _label_quantity(values, name), "auto")
    )


def _make_map_panel(variant: xr.Dataset, name: str, label: str, options: FigureOptions) -> Panel:
    values, over = variant[name], "prompts"
    rows, columns = (str(dim) for dim in values.dims if dim != "prompt")
    map_values = values.transpose(..., rows, columns).values.astype(float)
    if "prompt" in values.dims:
        over = "tokens" if "n_tokens" in variant.coords and options.weighting == "tokens" else over
        map_values = weighted_mean(
            map_values, token_weights(variant, name) if over == "tokens" else np.ones(len(map_values))
        )
    # A diverging map needs both signs; otherwise half of its colours would be unused.
    signed = bool((map_values[np.isfinite(map_values)] < 0).any())
    heat = HeatMap(
        values=map_values,
        title=f"{_title_variable(values)}{f', {label}' if label else ''}",
        rows=_make_side(rows),
        columns=_make_side(columns),
        quantity=f"{_label_quantity(values, name)}, mean over {over}"
        if "prompt" in values.dims
        else _label_quantity(values, name),
        short=name.replace("_", " "),
        colours=Colours.spanning(map_values, "signed" if signed else choose_scale(map_values, options.scale)),
    )
    return multiples.make_map_panel("-".join([name, *label.split()]), heat)


def _make_token_panels(data: xr.Dataset, name: str, options: FigureOptions) -> tuple[list[Panel], str]:
    values = data[name]
    others = [str(dim) for dim in values.dims if dim not in ("prompt", "token")]
    if len(others) != 1:
        return [], f"{_title_variable(values)} has too many dimensions to be drawn: {', '.join(map(str, values.dims))}."
    signed = bool((values < 0).any())
    colours: Kind = "signed" if signed else choose_scale(np.asarray(values, dtype=float), options.scale)
    token_values = TokenGrid(
        values,
        _title_variable(values),
        _make_side(others[0]),
        _label_quantity(values, name),
        name.replace("_", " "),
        colours,
    )
    panels, remarks = make_token_panels(data, {name: token_values}, options, "have no values", last=True)
    return [replace(token_panel, name=f"{name}_{token_panel.name}") for token_panel in panels], remarks


def _is_named(values: xr.DataArray, dim: str) -> bool:
    return values[dim].dtype.kind not in "fiu"


def _name_place(data: xr.Dataset, dim: str, place: int) -> str:
    named = data[dim].values[place]
    return str(named) if _is_named(data[dim], dim) else f"{dim} {named}"


def _title_variable(values: xr.DataArray) -> str:
    return _in_words(_name_variable(values))


def _name_variable(values: xr.DataArray) -> str:
    return str(values.attrs.get("long_name") or values.name)


def _in_words(name: str) -> str:
    return capitalised(name.replace("_", " "))


def _label_quantity(values: xr.DataArray, name: str) -> str:
    return f"{name.replace('_', ' ')} ({unit(values)})"


def _make_side(dim: str) -> Side:
    return Side(_label_dimension(dim), _label_dimension(dim).split(" (")[0])


def _label_dimension(dim: str) -> str:
    return PLACES.get(dim, f"{dim.replace('_', ' ')} (index)")
