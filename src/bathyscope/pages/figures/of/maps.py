"""Maps between models: how well each boundary of one predicts each boundary of the other, and the best partners.

Drawn from the result of ``bathyscope.maps``. Source: csordas2025 (maps between models).
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import Figure, FigureBase

from bathyscope.core.estimates import Estimate
from bathyscope.errors import OptionError, describe_value
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side, describe_largest, draw_colour_bar, draw_heat
from bathyscope.prompts.parts import resampled
from bathyscope.runs.names import model_names
from bathyscope.statistics.diagonal import NONE

_SHOWN: Final = {
    "relative_error": ("Relative error of maps", "mean of ‖error‖ / ‖target‖ (dimensionless)"),
    "r2": ("Share of variance explained", "R² (dimensionless; below 0 drawn as 0)"),
}


@dataclass(frozen=True)
class Direction:
    """Which model's boundaries have a best partner in the other model, and how the partners are marked."""

    seeker: str
    partner: str
    colour: str
    marker: str
    size: float


# The squares are larger than the dots: both stay visible where one lies on the other.
_DIRECTIONS: Final = {
    "best_source": Direction("target", "source", style.BLUE, "s", 6.5),
    "best_target": Direction("source", "target", style.VERMILION, "o", 3.5),
}


def draw(data: xr.Dataset) -> Figure:
    """Draw both maps and the best partners by relative depth, under a caption.

    Args:
        data: of what ``bathyscope.maps`` returns.

    Raises:
        OptionError: something else.

    Example:
        >>> from bathyscope.extend.figures import draw_maps
        >>> draw_maps(bathyscope.open("maps.nc").data).savefig("maps.png")  # doctest: +SKIP
    """
    attrs = getattr(data, "attrs", None)
    if not isinstance(attrs, dict) or "source_model" not in attrs:
        raise OptionError(
            f"data={describe_value(data)} is no result of bathyscope.maps; give what it returns, or "
            "bathyscope.open(FILE) of what diff maps --out FILE.nc wrote."
        )
    return drawing(data).alone()


def drawing(data: xr.Dataset) -> Drawing:
    """Make a heat map for each metric, and the best partners; the note has the diagonal statistics."""
    attrs = data.attrs
    note = (
        f"{attrs['source_model']} (source) → {attrs['target_model']} (target), {attrs['prompts']}: least-squares "
        f"affine maps between residual streams at the same token, position 0 left out. Fitted to {attrs['fit_tokens']} "
        f"tokens, ridge chosen on {attrs['choose_tokens']}, errors on {attrs['test_tokens']} tokens of "
        f"{attrs['test_prompts']} other prompts. {_describe_statistics(data)}; intervals resample "
        f"{resampled(attrs.get('cluster'))}. Dots: the best target of each source; squares: the best source "
        "of each target; dashed: equal relative depth."
    )
    panels = []
    for name in _SHOWN:
        heat = _make_map(data, name)
        rows, columns = heat.values.shape
        alt = f"Heat map of {rows} by {columns} boundaries. {heat.title}: {describe_largest(heat)}."
        panels.append(Panel(name, partial(_draw_heat, heat=heat, data=data), alt, style.MAP_SIZE))
    alt = f"Relative depth of the best partner. {_describe_statistics(data)}."
    return Drawing([*panels, Panel("partners", partial(_draw_partners, data=data), alt)], note)


def _make_map(data: xr.Dataset, name: str) -> HeatMap:
    values = data[name].transpose("source", "target").values
    source, target = model_names([str(data.attrs[f"{side}_model"]) for side in ("source", "target")])
    title, quantity = _SHOWN[name]
    if name == "r2":
        # R² has no lower bound: one bad map at −50 would leave all others in one colour.
        values = np.where(values < 0, 0.0, values)
        colours = Colours("linear", 0.0, 1.0, clips=False)
    else:
        colours = Colours.spanning(values, "linear", clips=True)
    return HeatMap(
        values=values,
        title=title,
        rows=Side(f"boundary of the source, {source}", "source boundary"),
        columns=Side(f"boundary of the target, {target}", "target boundary"),
        quantity=quantity,
        short=name.replace("_", " "),
        colours=colours,
    )


def _draw_heat(figure: FigureBase, heat: HeatMap, data: xr.Dataset) -> None:
    ax = figure.subplots()
    image = draw_heat(ax, heat)
    rows, columns = heat.values.shape
    ax.plot([0, columns - 1], [0, rows - 1], **{**style.BROKEN, "color": style.PAPER})
    if heat.short == "relative error":
        for name, direction in _DIRECTIONS.items():
            best = data[name].where(data[name] != NONE).values
            x, y = (best, range(rows)) if direction.seeker == "source" else (range(columns), best)
            ax.plot(
                x,
                y,
                direction.marker,
                color=direction.colour,
                markersize=direction.size,
                linestyle="none",
                markeredgecolor=style.PAPER,
            )
    draw_colour_bar(figure, image, [heat], [ax])


def _draw_partners(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], **style.BROKEN, zorder=1)
    for name, direction in _DIRECTIONS.items():
        best = data[name].values
        ax.plot(
            data[f"relative_depth_{direction.seeker}"],
            np.where(best == NONE, np.nan, data[f"relative_depth_{direction.partner}"].values[best]),
            direction.marker,
            color=direction.colour,
            markersize=direction.size,
            linestyle="none",
            label=f"best {direction.partner} of each {direction.seeker} boundary",
        )
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    ax.set(xlabel="relative depth of the boundary, b / L", ylabel="relative depth of its best partner")
    ax.set_title("Do best partners sit at the same relative depth?")
    ax.legend()


def _describe_statistics(data: xr.Dataset) -> str:
    """Write ``Best source of each target: slope 0.9 (0.8 to 1.0), …``, and the same of targets."""
    sentences = []
    for name, direction in _DIRECTIONS.items():
        statistics = data.sel(direction=name)
        slope, deviation = Estimate.of(statistics, "slope"), Estimate.of(statistics, "deviation")
        sentences.append(
            f"Best {direction.partner} of each {direction.seeker}: slope {slope:.2f}; 1 = same relative "
            f"depth, 0 = none; mean distance {deviation:.2f}, by chance {float(statistics['deviation_chance']):.2f}"
        )
    return ". ".join(sentences)
