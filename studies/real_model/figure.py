"""The figures of the page: four curves along the depth, of each model next to its controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

from studies.real_model.models import RealModel
from studies.real_model.reading import Sample

_STYLES: Final = {
    "untrained_0": ("untrained", "#999999", 1.0),
    "untrained_1": ("_", "#999999", 1.0),
    "untrained_2": ("_", "#999999", 1.0),
    "shuffled": ("shuffled", "#c0504d", 1.2),
}


class Panel(NamedTuple):
    """One curve of each model."""

    job: str
    variable: str
    title: str
    axis: str
    logarithmic: bool = False


PANELS: Final = (
    Panel("stream", "residual.ratio_block", "Relative contribution", "block", True),
    Panel("stream", "residual.cos_block", "Cosine with the stream", "block"),
    Panel("stream", "lens.kl_lens_final", "KL of the logit lens (nats)", "boundary"),
    Panel("drop", "drop.kl", "KL without the block (nats)", "block", True),
)


def draw(stored: Mapping[str, Mapping[str, xr.Dataset]], real: RealModel) -> Figure:
    """Draw what is stored of a model and its controls; a panel without results says so."""
    styles = {real.key: (real.short, "#1f4e79", 2.0), **_STYLES}
    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, panel in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        models = [name for name in styles if panel.job in stored.get(name, {})]
        for name in models:
            data = stored[name][panel.job]
            weights = np.asarray(data["n_tokens"].values, np.float64)
            label, colour, width = styles[name]
            axes.plot(Sample(data, weights).mean(panel.variable), label=label, color=colour, linewidth=width)
        if models and panel is PANELS[0]:
            axes.legend(frameon=False, fontsize="small")
        elif not models:
            axes.text(0.5, 0.5, "not measured yet", ha="center", transform=axes.transAxes)
        if panel.logarithmic and models:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            # powers would be written as formulas, which pictures here show as they are
            axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(panel.title, fontsize="medium", loc="left")
        axes.set_xlabel(panel.axis)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    return figure
