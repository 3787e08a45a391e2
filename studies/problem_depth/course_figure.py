"""Accuracy and the slopes of depth over moves through a training, step by step.

Drawn from what ``studies.problem_depth.course`` gives.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style
from studies.common.console import capitalised
from studies.problem_depth.readings import READINGS

_LINES = ("-", "--", "-.", ":")
_MARKS = ("o", "s", "^", "D")


def draw(found: xr.Dataset) -> Figure:
    """Accuracy by level, then a panel for each reading."""
    made = [Panel("accuracy", partial(_accuracy, found=found), _said(found))]
    for name in found["reading"].values.tolist():
        title = READINGS[name].title
        made.append(
            Panel(name, partial(_slopes, found=found, name=name), f"{title}: slope over moves by training step")
        )
    return arrange(_caption(found), made)


def _caption(found: xr.Dataset) -> str:
    seeds = found["seed"].values.tolist()
    return (
        f"Recipe {found.attrs['recipe']}, {found.attrs['blocks']} blocks, seeds {', '.join(map(str, seeds))}; "
        f"{found.attrs['asked']} held-out problems of each level at every step, solved or not. Bands: 95 % intervals "
        "over problems, for these very models."
    )


def _said(found: xr.Dataset) -> str:
    last = found["accuracy"].isel(step=-1).mean()
    return f"Share of held-out problems solved by training step, {float(last):.2f} at the last."


def _accuracy(figure: FigureBase, found: xr.Dataset) -> None:
    ax = figure.subplots()
    levels = found["steps"].values.tolist()
    shown = levels[1::2] or levels
    for colour, line, level in zip((style.BLUE, style.VERMILION, style.GREEN, style.PURPLE), _LINES, shown):
        own = found["accuracy"].sel(steps=level)
        ax.plot(_places(found), own.mean("seed"), line, color=colour, label=f"k = {level}", marker="o", markersize=3)
        ax.fill_between(_places(found), own.min("seed"), own.max("seed"), color=colour, alpha=0.15, linewidth=0)
    _step_axis(ax, found)
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel("held-out problems solved (share)")
    ax.set_title("Which problems are solved")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _slopes(figure: FigureBase, found: xr.Dataset, name: str) -> None:
    ax = figure.subplots()
    ax.axhline(0, color=style.MUTED, linewidth=0.9)
    colours = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE)
    for number, seed in enumerate(found["seed"].values.tolist()):
        own = found.sel(seed=seed, reading=name)
        colour, line, mark = colours[number % 4], _LINES[number % 4], _MARKS[number % 4]
        ax.plot(_places(found), own["moves_slope"], line, color=colour, marker=mark, markersize=3, label=f"seed {seed}")
        ax.fill_between(_places(found), own["moves_low"], own["moves_high"], color=colour, alpha=0.15, linewidth=0)
    _step_axis(ax, found)
    ax.set_ylabel(f"{READINGS[name].units} for each move")
    ax.set_title(capitalised(READINGS[name].title))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _places(found: xr.Dataset) -> np.ndarray:
    return np.arange(found.sizes["step"])


def _step_axis(ax: Axes, found: xr.Dataset) -> None:
    """Kept steps lie evenly: they are chosen, and 0 has no logarithm."""
    ax.set_xticks(_places(found), [f"{step:,}" for step in found["step"].values.tolist()])
    ax.set_xlabel("training step")
