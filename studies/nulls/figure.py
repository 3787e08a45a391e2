"""Trained models beside untrained ones of their shape: the verdict's readings, and what training moved.

Drawn from what ``studies.nulls.experiment`` gives.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style

_ROW_INCHES: Final = 0.34
_FRAME_INCHES: Final = 1.3
_WIDTH: Final = 3.6
_OF_SEEDS: Final = 0.22
"""Of a row's height, by which untrained models stand below the trained one."""


def draw(data: xr.Dataset) -> Figure:
    """A panel a reading, under a caption."""
    return arrange(caption(data), panels(data))


def caption(data: xr.Dataset) -> str:
    """What marks and whiskers are."""
    return (
        "Blocks done as a share of all. Filled: trained models with 95 % intervals over prompts; hollow: "
        f"{data.sizes['control']} untrained models of the same shape on the same prompts. A depth says something of "
        "training only as far as the two lie apart."
    )


def panels(data: xr.Dataset) -> list[Panel]:
    """One for each reading."""
    size = (_WIDTH, _FRAME_INCHES + _ROW_INCHES * data.sizes["model"])
    names = data["reading"].values.tolist()
    return [Panel(name, partial(_draw, own=data.sel(reading=name)), _said(data, name), size) for name in names]


def _draw(figure: FigureBase, own: xr.Dataset) -> None:
    ax = figure.subplots()
    for row, model in enumerate(own["model"].values):
        one = own.sel(model=model)
        blocks = float(one["blocks"])
        ax.hlines(row, one["low"] / blocks, one["high"] / blocks, color=style.BLUE, linewidth=1.6, alpha=0.6)
        ax.plot(one["value"] / blocks, row, "o", color=style.BLUE, markersize=5, label=None if row else "trained")
        seeds = one["untrained"].values / blocks
        below = [row + _OF_SEEDS] * seeds.size
        label = None if row else "untrained"
        ax.plot(seeds, below, "s", color=style.VERMILION, fillstyle="none", markersize=4, label=label)
    named = [f"{model} ({int(blocks)})" for model, blocks in zip(own["model"].values, own["blocks"].values)]
    ax.set_yticks(range(len(named)), named)
    ax.set_ylim(len(named) - 0.4, -0.6)
    ax.set_xlim(-0.03, 1.03)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("blocks done / L")
    ax.set_title(str(own["reading"].values))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _said(data: xr.Dataset, name: str) -> str:
    said = []
    for model in data["model"].values:
        one = data.sel(model=model, reading=name)
        low, high = float(one["moved_low"]), float(one["moved_high"])
        said.append(f"{model} {float(one['moved']):+.2f} ({low:+.2f} to {high:+.2f})")
    return f"{name}, trained less untrained, in blocks: {'; '.join(said)}."
