"""Depth by number of steps: what models of several depths solve, and whether readings of depth rise with the steps.

Drawn from what ``studies.problem_depth.experiment`` gives. Source: csordas2025 (depth by difficulty).
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style, whole_numbers
from studies.common.console import capitalised
from studies.problem_depth.readings import READINGS

_LOOKS: Final = (
    (style.BLUE, "o", "-"),
    (style.VERMILION, "s", "--"),
    (style.GREEN, "^", "-."),
    (style.PURPLE, "D", ":"),
    (style.INK, "v", "-"),
)
_ROLES: Final = {"deep": (style.BLUE, "o", 0.08), "shallow": (style.VERMILION, "s", -0.08)}
"""Colour, marker and place beside the class of the model that is read."""


class Slopes(NamedTuple):
    """The variables of a slope and its interval, what it is for each further one of, and the question it answers."""

    value: str
    low: str
    high: str
    unit: str
    title: str


SLOPES: Final = {
    "slopes": Slopes("slope", "ci_low", "ci_high", "step", "Does depth rise with the steps?"),
    "moves": Slopes("moves_slope", "moves_low", "moves_high", "move", "… with the moves, at equal steps?"),
}
_SEEDS_APART: Final = 0.05
_WIDEST: Final = 0.36
"""Of a class's unit of width, for the seeds on either side."""
_ROW_INCHES: Final = 0.14
_FRAME_INCHES: Final = 1.4


def draw(data: xr.Dataset) -> Figure:
    """All panels under a caption."""
    return arrange(caption(data), panels(data))


def caption(data: xr.Dataset) -> str:
    """What dots, fillings and whiskers are, and how many trends there are."""
    tests = int(data["p_value"].notnull().sum())
    rising = int(((data["p_holm"] < 0.05) & (data["slope"] > 0)).sum())
    falling = int(((data["p_holm"] < 0.05) & (data["slope"] < 0)).sum())
    seeds = "1 seed" if data.sizes["seed"] == 1 else f"{data.sizes['seed']} seeds"
    return (
        f"Recipe {data.attrs['recipe']}, {seeds}. A level of k steps counts as solved where at "
        f"least {float(data.attrs['solved_from']):.0%} of up to {data.attrs['asked']} held-out problems are"
        f"{_said_of_the_edge(data)}; hollow marks: not so with every seed. "
        "Lines: means over seeds; bands: their range. Slopes with 95 % intervals are over solved levels alone, one for "
        f"each seed{_said_of_controls(data)}: after Holm's correction {rising} of {tests} rise and {falling} fall."
        f"{_said_of_classes(data)}"
    )


def _said_of_the_edge(data: xr.Dataset) -> str:
    """In which precision models were asked, and for how many levels the threshold lies within the share's interval."""
    if "on_edge" not in data:
        return ""
    edge, levels = int(data["on_edge"].sum()), data["on_edge"].size
    return f" in {data.attrs['precision']} (for {edge} of {levels} that share's interval holds the threshold)"


def _said_of_controls(data: xr.Dataset) -> str:
    return f", crosses: {data.sizes['control']} untrained models of the shape" if "control" in data.dims else ""


def widest(data: xr.Dataset) -> xr.Dataset | None:
    """The classes of the shallowest and the deepest models; None with one depth."""
    if "pair" not in data.coords:
        return None
    return data.isel(pair=int((data["deep"] - data["shallow"]).argmax("pair")))


def _said_of_classes(data: xr.Dataset) -> str:
    own = widest(data)
    if own is None:
        return ""
    return (
        f" Classes: which of the models of {int(own['shallow'])} and {int(own['deep'])} blocks solve a problem; a mark "
        "is a seed, with its 95 % interval over problems where there are enough; numbers under a class: mean steps, "
        "and problems a seed. Classes differ in steps too; the last picture compares them at equal steps, with 95 % "
        "intervals that are not corrected for their number."
    )


def panels(data: xr.Dataset) -> list[Panel]:
    """Accuracy, every reading by steps, the slopes, and every reading by which of two models solve a problem."""
    made = [Panel("accuracy", partial(_accuracy, data=data), _said(data, "accuracy", "share solved"))]
    for name in data["reading"].values:
        reading = READINGS[str(name)]
        by_level = _by_level(data, str(name))
        made.append(
            Panel(
                f"reading_{name}",
                partial(_reading, data=data, name=str(name)),
                _said(by_level.to_dataset(name="value"), "value", reading.title),
            )
        )
    rows = data.sizes["reading"] * (data.sizes["blocks"] * data.sizes["seed"] + 1)
    size = (style.PANEL_SIZE[0] + 1.4, _FRAME_INCHES + _ROW_INCHES * rows)
    for name, slopes in SLOPES.items():
        if slopes.value in data:
            made.append(Panel(name, partial(_slopes, data=data, slopes=slopes), _said_slopes(data, slopes), size))
    own = widest(data)
    if own is not None:
        for name in data["reading"].values.tolist():
            made.append(Panel(f"classes_{name}", partial(_classes, own=own, name=name), _said_classes(own, name)))
        rows = own.sizes["reading"] * (2 * own.sizes["seed"] + 1)
        size = (style.PANEL_SIZE[0] + 1.4, _FRAME_INCHES + _ROW_INCHES * rows)
        made.append(Panel("same_steps", partial(_same_steps, own=own), _said_same_steps(own), size))
    return made


def _by_level(data: xr.Dataset, name: str) -> xr.DataArray:
    """Means over problems of one reading, (blocks, seed, steps)."""
    value = data["value"].sel(reading=name)
    found = value.groupby("prompt_steps").mean("prompt").rename(prompt_steps="steps")
    return found.transpose("blocks", "seed", "steps")


def _lines(ax: Axes, data: xr.Dataset, values: xr.DataArray) -> None:
    for (colour, marker, line), blocks in zip(_LOOKS * len(values["blocks"]), values["blocks"].values):
        own, right = values.sel(blocks=blocks), data["solved"].sel(blocks=blocks)
        steps, mean = own["steps"].values, own.mean("seed").values
        ax.plot(steps, mean, line, color=colour, label=f"{blocks} blocks")
        ax.fill_between(steps, own.min("seed"), own.max("seed"), color=colour, alpha=0.18, linewidth=0)
        every = right.all("seed").values
        ax.plot(steps[every], mean[every], marker, color=colour, linestyle="none")
        ax.plot(steps[~every], mean[~every], marker, color=colour, linestyle="none", markerfacecolor=style.PAPER)
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set_xlabel("steps k of the problem")


def _accuracy(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    _lines(ax, data, data["accuracy"])
    ax.axhline(float(data.attrs["solved_from"]), color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel("held-out problems solved (share)")
    ax.set_title("Which problems are solved")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _reading(figure: FigureBase, data: xr.Dataset, name: str) -> None:
    reading = READINGS[name]
    ax = figure.subplots()
    _lines(ax, data, _by_level(data, name))
    ax.set_ylabel(f"depth ({reading.units})")
    ax.set_title(capitalised(reading.title))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _slopes(figure: FigureBase, data: xr.Dataset, slopes: Slopes) -> None:
    """Trained models with intervals; untrained ones of their shape as crosses on the same line."""
    ax = figure.subplots()
    place = 0.0
    ticks: list[float] = []
    names: list[str] = []
    for name in data["reading"].values:
        first = place
        for (colour, marker, _), blocks in zip(_LOOKS * data.sizes["blocks"], data["blocks"].values):
            for seed in data["seed"].values:
                own = data.sel(reading=name, blocks=blocks, seed=seed)
                ax.hlines(place, own[slopes.low], own[slopes.high], color=colour, linewidth=2, alpha=0.6)
                label = f"{blocks} blocks" if not ticks and seed == data["seed"].values[0] else None
                ax.plot(own[slopes.value], [place], marker, color=colour, markersize=4, label=label)
                if (name_of_null := f"untrained_{slopes.value}") in own:
                    nulls = own[name_of_null].values
                    label = "untrained" if place == 0 else None
                    ax.plot(nulls, [place] * nulls.size, "x", color=style.MUTED, markersize=4, label=label)
                place += 1
        ticks.append((first + place - 1) / 2)
        names.append(READINGS[str(name)].title)
        place += 1
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_yticks(ticks, names)
    ax.set_ylim(place - 0.5, -1)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(f"slope (blocks or boundaries for each further {slopes.unit})")
    ax.set_title(slopes.title)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _classes(figure: FigureBase, own: xr.Dataset, name: str) -> None:
    reading, classes = READINGS[name], own["solved_by"].values.tolist()
    ax = figure.subplots()
    for role, (colour, marker, beside) in _ROLES.items():
        for number, seed in enumerate(own["seed"].values):
            one = own.sel(reading=name, read_in=role, seed=seed)
            apart = min(_SEEDS_APART, _WIDEST / own.sizes["seed"])
            x = np.arange(len(classes)) + beside + np.sign(beside) * apart * number
            ax.vlines(x, one["class_low"], one["class_high"], color=colour, linewidth=1.6, alpha=0.6)
            label = None if number else f"read in {int(own[role])} blocks"
            ax.plot(x, one["class_mean"], marker, color=colour, linestyle="none", markersize=4, label=label)
    ticks = []
    for one in classes:
        of_class = own.sel(solved_by=one)
        counts = of_class["class_count"].values
        steps = float((of_class["class_steps"].fillna(0) * counts).sum()) / max(counts.sum(), 1)
        size = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()}–{counts.max()}"
        between = ", " if counts.min() == counts.max() else "\n"  # a range leaves no room beside the steps
        ticks.append(f"{one}\n{f'k = {steps:.1f}{between}' if counts.any() else ''}n = {size}")
    ax.set_xticks(range(len(classes)), ticks, fontsize=7)
    ax.set_xlim(-0.5, len(classes) - 0.5)
    ax.set_xlabel("solved by")
    ax.set_ylabel(f"depth ({reading.units})")
    ax.set_title(f"{capitalised(reading.title)}, by class")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _same_steps(figure: FigureBase, own: xr.Dataset) -> None:
    ax = figure.subplots()
    place = 0.0
    ticks: list[float] = []
    for name in own["reading"].values:
        first = place
        for role, (colour, marker, _) in _ROLES.items():
            for number, seed in enumerate(own["seed"].values):
                one = own.sel(reading=name, read_in=role, seed=seed)
                ax.hlines(place, one["same_steps_low"], one["same_steps_high"], color=colour, linewidth=2, alpha=0.6)
                label = f"read in {int(own[role])} blocks" if not ticks and not number else None
                ax.plot(one["same_steps"], [place], marker, color=colour, markersize=4, label=label)
                place += 1
        ticks.append((first + place - 1) / 2)
        place += 1
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_yticks(ticks, [READINGS[str(name)].title for name in own["reading"].values])
    ax.set_ylim(place - 0.5, -1)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("only deep − both (blocks or boundaries)")
    ax.set_title("Only deep less both, at equal steps")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _said_same_steps(own: xr.Dataset) -> str:
    said = []
    for name in own["reading"].values:
        values = own["same_steps"].sel(reading=name, read_in="deep").values
        there = values[np.isfinite(values)]
        ends = f"{there.min():+.2f} to {there.max():+.2f}" if there.size else "none"
        said.append(f"{READINGS[str(name)].title}: {ends}")
    return f"Only the deep model less both, at equal steps, read in {int(own['deep'])} blocks. {'; '.join(said)}."


def _said_classes(own: xr.Dataset, name: str) -> str:
    said = []
    for one in own["solved_by"].values.tolist():
        mean = own["class_mean"].sel(reading=name, read_in="deep", solved_by=one).mean("seed")
        if bool(mean.notnull()):
            said.append(f"{one}: {float(mean):.2f}")
    return f"{READINGS[name].title} in {int(own['deep'])} blocks by which model solves a problem. {'; '.join(said)}."


def _said(data: xr.Dataset, name: str, what: str) -> str:
    said = []
    for blocks in data["blocks"].values:
        own = data[name].sel(blocks=blocks).mean("seed")
        ends = ", ".join(f"{float(own.sel(steps=k)):.2f} at k={k}" for k in (own.steps.values[0], own.steps.values[-1]))
        said.append(f"{blocks} blocks: {ends}")
    return f"{what} by steps. {'; '.join(said)}."


def _said_slopes(data: xr.Dataset, slopes: Slopes) -> str:
    said = []
    for name in data["reading"].values:
        own = data[slopes.value].sel(reading=name).values
        there = own[np.isfinite(own)]
        ends = f"{there.min():+.2f} to {there.max():+.2f}" if there.size else "none"
        said.append(f"{READINGS[str(name)].title}: {ends}")
    return f"{slopes.title} Slopes over solved levels. {'; '.join(said)}."
