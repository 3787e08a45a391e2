"""Decodable and readable depth of models of one kind, beside untrained ones.

Drawn from what ``studies.problem_depth.decodable`` gives.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style, whole_numbers
from studies.problem_depth.readings import READERS

_LOOKS = {"lens": (style.BLUE, "o", "-"), "translated": (style.VERMILION, "s", "--")}


def draw(found: xr.Dataset) -> Figure:
    """A panel for each number of blocks: over moves where problems say them, else a mark for each model."""
    shown = _moves if "by_moves" in found else _marks
    made = []
    for blocks in dict.fromkeys(found["blocks"].values.tolist()):
        own = found.isel(model=found["blocks"].values == blocks)
        made.append(Panel(f"blocks_{blocks}", partial(shown, own=own, blocks=blocks), _said(own, blocks)))
    caption = "Lines or marks: means over models; bands: their range; grey: untrained models of the shape."
    return arrange(caption, made)


def _said(own: xr.Dataset, blocks: int) -> str:
    depth = own["depth"].mean("model")
    said = (f"{title} {float(depth.sel(reader=reader)):.1f}" for reader, title in READERS.items())
    return f"{blocks} blocks: {', '.join(said)} boundaries on average."


def _moves(figure: FigureBase, own: xr.Dataset, blocks: int) -> None:
    ax = figure.subplots()
    for reader, title in READERS.items():
        colour, mark, line = _LOOKS[reader]
        value = own["by_moves"].sel(reader=reader)
        ax.plot(value["moves"], value.mean("model"), line, color=colour, marker=mark, markersize=4, label=title)
        ax.fill_between(value["moves"], value.min("model"), value.max("model"), color=colour, alpha=0.18, linewidth=0)
        if "untrained_by_moves" in own:
            null = own["untrained_by_moves"].sel(reader=reader).mean(("model", "control"))
            ax.plot(null["moves"], null, line, color=style.MUTED, linewidth=1, label=f"{title}, untrained")
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set_ylim(0, blocks + 0.5)
    ax.set_xlabel("moves of the problem")
    ax.set_ylabel("depth (boundary)")
    ax.set_title(f"{blocks} blocks")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _marks(figure: FigureBase, own: xr.Dataset, blocks: int) -> None:
    ax = figure.subplots()
    for place, (reader, title) in enumerate(READERS.items()):
        colour, mark, _ = _LOOKS[reader]
        value = own["depth"].sel(reader=reader).values
        ax.plot(np.full(value.size, place), value, mark, color=colour, linestyle="none", label=title)
        if "untrained_depth" in own:
            null = own["untrained_depth"].sel(reader=reader).values.ravel()
            ax.plot(np.full(null.size, place), null, "x", color=style.MUTED, linestyle="none")
    ax.set_xticks(range(len(READERS)), list(READERS.values()))
    ax.set_xlim(-0.5, len(READERS) - 0.5)
    ax.set_ylim(0, blocks + 0.5)
    ax.set_ylabel("depth (boundary)")
    ax.set_title(f"{blocks} blocks")
