"""Among others: where a run's model is among models of the package and of papers. Drawn from the data of a standing."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.forest import name_rows

_NAMES: Final = {
    "half": "half of the tokens keep",
    "cosine": "cosine",
    "kl": "KL",
    "overlap": "top-k overlap",
}
"""The depths, in words, from the top."""
_LOOKS: Final = {
    "published": ("printed in papers", style.MUTED, "|", -0.24),
    "trained": ("trained, of the package", style.BLUE, "o", -0.08),
    "untrained": ("untrained, of the package", style.GREEN, "s", 0.08),
    "run": ("this run", style.VERMILION, "D", 0.24),
}
"""Kind → words, colour, mark, and how far below the middle of its row."""
_SIZE: Final = (6.4, 3.4)


def drawing(data: xr.Dataset) -> Drawing:
    """Draw one strip: a row a depth, in it a mark for every model."""
    finite = data.isel(row=np.isfinite(data["share"].values))
    depths = [name for name in _NAMES if name in finite["quantity"].values[finite["kind"].values == "run"]]
    subject = finite.isel(row=finite["kind"].values == "run")
    values = ", ".join(
        f"{_NAMES[str(name)]} {share:.2f}" for name, share in zip(subject["quantity"].values, subject["share"].values)
    )
    note = (
        "Depth as a share of the blocks, 95 % intervals over prompts as lines. Papers print no intervals. Models "
        "read different prompts, with weights in different precisions; the table says which."
    )
    panel = Panel("strip", partial(_draw_strip, data=finite, depths=depths), f"This run's shares: {values}.", _SIZE)
    return Drawing([panel] if depths else [], note, heading="Among other models")


def _draw_strip(figure: FigureBase, data: xr.Dataset, depths: list[str]) -> None:
    ax = figure.subplots()
    for kind, (label, colour, mark, below) in _LOOKS.items():
        rows = data.isel(row=(data["kind"].values == kind) & np.isin(data["quantity"].values, depths))
        places = np.array([depths.index(name) for name in rows["quantity"].values]) + below
        is_run = kind == "run"
        ax.hlines(places, rows["low"], rows["high"], color=colour, linewidth=2 if is_run else 0.7, alpha=0.6)
        size, face = (6 if is_run else 4), (style.PAPER if kind == "untrained" else colour)
        ax.plot(rows["share"], places, mark, color=colour, markerfacecolor=face, markersize=size, label=label)
    name_rows(ax, [_NAMES[name] for name in depths])
    ax.set(xlim=(-0.02, 1.02), xlabel="blocks done, as a share of the model's blocks")
    ax.legend(fontsize=6.5, ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
