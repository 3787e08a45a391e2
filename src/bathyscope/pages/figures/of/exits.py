"""Early exits: what each exit predicts, and what drafting from it saves. Drawn from the data of ``exit_advice``."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.prompts.parts import resampled
from bathyscope.surgery.exits.result import best_drafts


def drawing(data: xr.Dataset) -> Drawing:
    """Draw a panel of acceptance and a panel of speed."""
    attrs = data.attrs
    note = (
        f"Greedy continuations of {attrs['prompts']} prompts, {attrs['tokens']} tokens; bands and whiskers: "
        f"{level_text(float(attrs['level']))} intervals over {resampled(attrs.get('cluster'))}. Left: share of the "
        "tokens that the readout after a block predicts, and share of correct drafts in a test of drafting on other "
        "prompts. Right: speed of greedy decoding with drafts of the best length (number above the mark), relative to "
        "plain decoding; drafting pays above 1."
    )
    shares = ", ".join(f"{exit_}: {value:.3g}" for exit_, value in zip(data["exit"].values, data["acceptance"].values))
    panels = [
        Panel("acceptance", partial(_draw_acceptance, data=data), f"Share of predicted tokens by exit: {shares}."),
        Panel("speed", partial(_draw_speed, data=best_drafts(data)), "Speed with drafts over plain decoding, by exit."),
    ]
    return Drawing(panels, note, heading="Does it pay to stop early?", blocks=int(attrs["n_blocks"]))


def _draw_acceptance(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["exit"].values
    ax.fill_between(x, data["acceptance_low"], data["acceptance_high"], color=style.BLUE, alpha=0.2, linewidth=0)
    ax.plot(x, data["acceptance"], "o-", color=style.BLUE, markersize=3.5, label="generated tokens predicted")
    if "measured_share" in data:
        ax.plot(x, data["foretold_share"], "-", color=style.MUTED, linewidth=1, label="correct drafts, predicted")
        ax.vlines(x, data["measured_low"], data["measured_high"], color=style.VERMILION, linewidth=1.2)
        ax.plot(x, data["measured_share"], "s", color=style.VERMILION, markersize=3.5, label="correct drafts, measured")
    ax.set_ylim(0, 1.02)
    _label_axes(ax, "share", "What exits predict")


def _draw_speed(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["exit"].values
    ax.fill_between(x, data["speed_low"], data["speed_high"], color=style.BLUE, alpha=0.2, linewidth=0)
    ax.plot(x, data["speed"], "o-", color=style.BLUE, markersize=3.5, label="in transformers' generate")
    ax.plot(x, data["bare_speed"], "--", color=style.MUTED, linewidth=1, label="blocks and head alone")
    for exit_, value, draft in zip(x, data["speed"].values, data["draft"].values):
        ax.annotate(str(draft), (exit_, value), (0, 4), textcoords="offset points", ha="center", fontsize=6)
    if "measured_speed" in data:
        ax.plot(x, data["measured_speed"], "s", color=style.VERMILION, markersize=3.5, label="measured wall time")
    ax.axhline(1, color=style.INK, linewidth=0.8)
    speeds = [data[name].values for name in ("speed_high", "bare_speed", "measured_speed") if name in data]
    ax.set_ylim(0, 1.1 * max(1.0, float(np.max(speeds))))
    _label_axes(ax, "times plain greedy decoding", "What drafting from them gives")


def _label_axes(ax: Axes, y: str, title: str) -> None:
    ax.set(xlabel="exit (blocks done)", ylabel=y, title=title)
    ax.legend(fontsize=6.5)
