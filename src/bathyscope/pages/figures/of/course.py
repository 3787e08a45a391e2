"""A course: depth over the steps of a training, and which blocks matter when. Drawn from a course."""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.core.estimates import Estimate
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours, Kind
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side, describe_largest, draw_colour_bar, draw_heat
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, Look
from bathyscope.surveying.training.gains import GUESSING, later_blocks

_READINGS: Final = {
    "half": ("half of the tokens keep their prediction", Look(style.BLUE, "o", "-")),
    "readable": ("a token is final, on average", Look(style.BLUE, "o", "-")),
    "own": ("90 % of the effect on output", Look(style.VERMILION, "s", "--")),
    "later": ("90 % of that on later tokens", Look(style.GREEN, "^", ":")),
}
_STEP_LABEL: Final = "step of the training"
_MAPS: Final = {
    "added_loss": ("Loss added without a block", "added loss (nats per token)", "added loss"),
    "skip_effect": ("Effect of skipping a block on the output", "change of the output (dimensionless)", "effect"),
}
_TICKS: Final = 8
_WITH_LEGEND: Final = 1.4
"""Share of the blocks up to which readings have room, with their legend above the line of all blocks."""
_SPREAD: Final = 20.0
"""Largest over median effect from which colours are logarithmic."""


def drawing(data: xr.Dataset) -> Drawing:
    """Draw the readings and the loss over steps, and block × step maps of drop and skip effects."""
    panels = []
    if "readable" in data:
        name = _choose_head(data)
        ends = [f"{float(data[name][place]):.1f}" for place in (0, -1)]
        what = _READINGS[name][0]
        alt = f"Readings of depth by step; blocks until {what}: {ends[0]} at first, {ends[1]} at last."
        panels.append(Panel("depth", partial(_draw_readings, data=data), alt))
    if "loss" in data:
        alt = f"Loss of the prompts by step: {', '.join(f'{value:.3g}' for value in data['loss'].values)} nats."
        panels.append(Panel("loss", partial(_draw_loss, data=data), alt))
    if "late_blocks_loss" in data and data.sizes["block"] > 1:
        costs = [Estimate.of(data.isel(step=place), "late_blocks_loss") for place in range(data.sizes["step"])]
        alt = (
            f"Loss added without a block, summed over blocks {later_blocks(data.sizes['block'])}, by step, with 95 % "
            f"intervals: {', '.join(f'{cost:+.3g}' for cost in costs)} nats."
        )
        panels.append(Panel("later", partial(_draw_later, data=data), alt))
    for name, (title, quantity, short) in _MAPS.items():
        if name in data:
            heat = _map_of(data, name, title, quantity, short)
            alt = f"Heat map of {data.sizes['block']} blocks by {data.sizes['step']} steps. {title}: "
            panels.append(Panel(name, partial(_draw_map, heat=heat, data=data), alt + describe_largest(heat) + "."))
    over_null = ", and than at step 0, where the model guesses" if data.attrs.get(GUESSING) else ""
    note = (
        f"{data.attrs['model']} on {data.attrs['prompts']}. Bands: 95 % intervals over prompts, the same at each step. "
        f"{_null_note(data)} Maps: every column is a step, in order and not to scale; ringed is the step since which "
        f"dropping a block surely adds more than 0.01 nats{over_null}."
    )
    return Drawing(panels, note, heading="Depth by step", blocks=int(data.attrs["n_blocks"]))


def _choose_head(data: xr.Dataset) -> str:
    """Return the reading of tokens that is drawn: their mean where a step of an earlier version stores no more."""
    return "readable" if "half" not in data or np.isnan(data["half"].values).any() else "half"


def _null_note(data: xr.Dataset) -> str:
    if int(data["step"][0]) == 0:
        return "Step 0 is the model before this training: what it reads there is the null of all that follows."
    return "There is no survey of step 0, so that what an untrained model reads is not known."


def _draw_readings(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["step"].values
    for name in (_choose_head(data), "own", "later"):
        label, look = _READINGS[name]
        if np.isfinite(data[name].values).any():
            ax.fill_between(x, data[f"{name}_low"], data[f"{name}_high"], color=look.colour, alpha=0.15, linewidth=0)
            ax.plot(x, data[name], look.line, marker=look.marker, color=look.colour, markersize=3.5, label=label)
    blocks = int(data.attrs["n_blocks"])
    ax.axhline(blocks, **style.BROKEN, zorder=1)
    ax.set(xlabel=_STEP_LABEL, ylabel=f"blocks done (of {blocks})", title="Blocks done when …")
    ax.set_ylim(0, _WITH_LEGEND * blocks)
    ax.set_yticks([tick for tick in ax.get_yticks() if tick <= blocks])
    ax.legend(fontsize=6.5, loc="upper right")


def _draw_loss(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["step"].values
    ax.fill_between(x, data["loss_low"], data["loss_high"], color=style.PURPLE, alpha=0.15, linewidth=0)
    ax.plot(x, data["loss"], "-o", color=style.PURPLE, markersize=3.5, label="loss")
    ax.set(xlabel=_STEP_LABEL, ylabel="loss (nats per token)", title="Loss of the prompts")
    # with few prompts no count of idle blocks is known, nor where drops were not measured
    if "idle_blocks" not in data or not data["idle_blocks"].notnull().any():
        return
    ax.set_title("Loss of the prompts, and idle blocks")
    idle = ax.twinx()
    idle.plot(x, data["idle_blocks"], "--s", color=style.MUTED, markersize=3, label="idle blocks")
    idle.set_ylabel("blocks shown to be idle")
    idle.set_ylim(0, int(data.attrs["n_blocks"]))
    idle.grid(visible=False)
    handles = [*ax.get_lines(), *idle.get_lines()]
    ax.legend(handles, [str(line.get_label()) for line in handles], fontsize=6.5)


def _draw_later(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x, name = figure.subplots(), data["step"].values, "late_blocks_loss"
    ax.plot(x, data[name], "-o", color=style.PURPLE, markersize=3.5)
    ax.fill_between(x, data[f"{name}_low"], data[f"{name}_high"], color=style.PURPLE, alpha=0.15, linewidth=0)
    ax.axhline(0, **style.BROKEN, zorder=1)
    title = f"Cost of the later half ({later_blocks(data.sizes['block'])}), a block at a time"
    ax.set(xlabel=_STEP_LABEL, ylabel="summed added loss (nats per token)", title=title)


def _map_of(data: xr.Dataset, name: str, title: str, quantity: str, short: str) -> HeatMap:
    values = data[name].transpose("block", "step").values
    sizes = np.abs(values[np.isfinite(values)])
    kind: Kind = "linear"
    if (values < -0.1 * sizes.max()).any():
        # An untrained model may gain by losing a block; the colours of a signed map show which blocks hurt.
        kind = "signed"
    elif sizes.max() > _SPREAD * np.median(sizes):
        # The first block is often worth a hundred others, which would all have one colour.
        kind = "log"
    return HeatMap(
        values=values,
        title=title,
        rows=Side(BLOCK_LABEL, "block"),
        columns=Side(_STEP_LABEL, "surveyed step"),
        quantity=quantity,
        short=short,
        colours=Colours.spanning(values, kind, clips=True),
    )


def _draw_map(figure: FigureBase, heat: HeatMap, data: xr.Dataset) -> None:
    ax = figure.subplots()
    image = draw_heat(ax, heat)
    _name_steps(ax, data["step"].values)
    if heat.short == "added loss":
        steps = data["step"].values.tolist()
        places = [(steps.index(step), block) for block, step in enumerate(data["matters_from"].values) if step == step]
        if places:
            columns, rows = zip(*places)
            ax.plot(columns, rows, "o", markerfacecolor="none", markeredgecolor=style.VERMILION, markersize=6)
    draw_colour_bar(figure, image, [heat], [ax])


def _name_steps(ax: Axes, steps: np.ndarray) -> None:
    """Write the steps under the columns, as many as there is room for."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _TICKS)).round().astype(int))
    ax.set_xticks(places.tolist(), [str(steps[place]) for place in places])
