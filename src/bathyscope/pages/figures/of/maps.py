"""Maps between models: how well every boundary of one gives every boundary of the other, and which gives which best.

Drawn from what ``bathyscope.maps`` gives. Source: csordas2025 (maps between models).
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import Figure, FigureBase

from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side, describe_largest, draw_colour_bar, draw_heat
from bathyscope.prompts.parts import resampled
from bathyscope.runs.names import model_names
from bathyscope.statistics.diagonal import NONE

_SHOWN: Final = {
    "relative_error": ("Relative error of maps", "mean of ‖error‖ / ‖target‖ (dimensionless)"),
    "r2": ("Share of variance given", "R² (dimensionless; below 0 drawn as 0)"),
}
# direction → whose boundaries have partners, whose are the partners, colour, marker and its size: both stay visible
# where one lies on the other
_DIRECTIONS: Final = {
    "best_source": ("target", "source", style.BLUE, "s", 6.5),
    "best_target": ("source", "target", style.VERMILION, "o", 3.5),
}


def draw(data: xr.Dataset) -> Figure:
    """Both maps and the best partners by relative depth, under a caption."""
    return drawing(data).alone()


def drawing(data: xr.Dataset) -> Drawing:
    """A heat map for each metric, and the best partners; the note holds the diagonal statistics."""
    attrs = data.attrs
    note = (
        f"{attrs['source_model']} (source) → {attrs['target_model']} (target), {attrs['prompts']}: least-squares "
        f"affine maps between residual streams at the same token, position 0 left out. Fitted to {attrs['fit_tokens']} "
        f"tokens, ridge chosen on {attrs['choose_tokens']}, errors on {attrs['test_tokens']} tokens of "
        f"{attrs['test_prompts']} other prompts. {_statistics(data)}; intervals resample "
        f"{resampled(attrs.get('cluster'))}. Dots: the best target of each source; squares: the best source "
        "of each target; dashed: equal relative depth."
    )
    made = []
    for name in _SHOWN:
        heat = _heat(data, name)
        rows, columns = heat.values.shape
        alt = f"Heat map of {rows} by {columns} boundaries. {heat.title}: {describe_largest(heat)}."
        made.append(Panel(name, partial(_draw_heat, shown=heat, data=data), alt, style.MAP_SIZE))
    alt = f"Relative depth of the best partner. {_statistics(data)}."
    return Drawing([*made, Panel("partners", partial(_draw_partners, data=data), alt)], note)


def _heat(data: xr.Dataset, name: str) -> HeatMap:
    values = data[name].transpose("source", "target").values
    source, target = model_names([str(data.attrs[f"{side}_model"]) for side in ("source", "target")])
    title, quantity = _SHOWN[name]
    if name == "r2":
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


def _draw_heat(figure: FigureBase, shown: HeatMap, data: xr.Dataset) -> None:
    ax = figure.subplots()
    image = draw_heat(ax, shown)
    rows, columns = shown.values.shape
    ax.plot([0, columns - 1], [0, rows - 1], color=style.PAPER, linewidth=0.9, linestyle=(0, (4, 3)))
    if shown.short == "relative error":
        for direction, (own, _, colour, marker, size) in _DIRECTIONS.items():
            best = data[direction].where(data[direction] != NONE).values
            x, y = (best, range(rows)) if own == "source" else (range(columns), best)
            ax.plot(x, y, marker, color=colour, markersize=size, linestyle="none", markeredgecolor=style.PAPER)
    draw_colour_bar(figure, image, [shown], [ax])


def _draw_partners(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    for direction, (own, other, colour, marker, size) in _DIRECTIONS.items():
        depths, best = data[f"relative_depth_{other}"].values, data[direction].values
        partners = np.where(best == NONE, np.nan, depths[best])
        label = f"best {other} of each {own} boundary"
        places = data[f"relative_depth_{own}"]
        ax.plot(places, partners, marker, color=colour, markersize=size, linestyle="none", label=label)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    ax.set(xlabel="relative depth of the boundary, b / L", ylabel="relative depth of its best partner")
    ax.set_title("Do best partners sit at the same relative depth?")
    ax.legend()


def _statistics(data: xr.Dataset) -> str:
    """``Best source of each target: slope 0.9 (0.8 to 1.0), …``, and the same of targets."""
    said = []
    for direction, (own, other, *_) in _DIRECTIONS.items():
        one = data.sel(direction=direction)
        slope, low, high = (float(one[name]) for name in ("slope", "slope_low", "slope_high"))
        said.append(
            f"Best {other} of each {own}: slope {slope:.2f} ({low:.2f} to {high:.2f}; 1 = same relative depth, "
            f"0 = none), mean distance {float(one['deviation']):.2f} ({float(one['deviation_low']):.2f} to "
            f"{float(one['deviation_high']):.2f}; by chance {float(one['deviation_chance']):.2f})"
        )
    return ". ".join(said)
