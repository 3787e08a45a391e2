"""The figure of the growth study: what copies, originals and blocks from nothing cost to leave out, by step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from bathyscope.extend.figures import bent_axis, style
from studies.growth.trainings import COPIES, ORIGINALS

_GROUPS: Final = (
    ("grown", COPIES, "grown: the copies", style.VERMILION, "-o"),
    ("grown", ORIGINALS, "grown: what they were copied from", style.BLUE, "--s"),
    ("scratch", COPIES, "from nothing: same places as the copies", style.GREEN, ":^"),
)


def draw(record: dict[str, Any]) -> Figure:
    """Draw added loss by steps since the growth, and by block at the end; one thin line a seed, and their mean."""
    with style.applied():
        figure = Figure(figsize=(9.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        seeds = list(record["seeds"].values())
        for kind, blocks, label, colour, look in _GROUPS:
            if kind not in seeds[0]:
                continue
            curves = np.array([np.array(seed[kind]["added_loss"])[:, list(blocks)].mean(1) for seed in seeds])
            # The model from nothing takes twice the steps: shares of each course's own end.
            steps = np.array(seeds[0][kind]["step"])
            shares = steps / steps[-1]
            for curve in curves:
                left.plot(shares, curve, look[:-1], color=colour, linewidth=0.6, alpha=0.5)
            left.plot(shares, curves.mean(0), look, color=colour, markersize=3.5, label=label)
        left.axhline(0.01, **style.BROKEN)
        left.set(xlabel="share of the training (grown: since the growth)", ylabel="added loss (nats per token)")
        left.set_title("Loss added by leaving a block out, mean of two blocks")
        left.legend(fontsize=6.5)
        for kind, look, colour, label in (
            ("grown", "o", style.VERMILION, "grown"),
            ("scratch", "^", style.GREEN, "from nothing"),
        ):
            if kind not in seeds[0]:
                continue
            ends = np.array([np.array(seed[kind]["added_loss"])[-1] for seed in seeds])
            places = np.arange(ends.shape[1])
            for row in ends:
                right.plot(places, row, look, color=colour, markersize=3, alpha=0.4)
            right.plot(places, ends.mean(0), f"-{look}", color=colour, markersize=4.5, label=f"{label}, mean of seeds")
        for block in COPIES:
            right.axvspan(block - 0.4, block + 0.4, color=style.VOID, zorder=0)
        right.set(xlabel="block (grey: the copies)", ylabel="added loss (nats per token)", title="At the last step")
        bent_axis(right, 0.1)
        right.legend(fontsize=6.5)
        figure.draw_without_rendering()
    return figure
