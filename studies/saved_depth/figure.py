"""The figure: depth of the answer by condition and seed, and the differences against their bound; light and dark."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bathyscope.extend.figures import render, style
from studies.saved_depth.differences import Stored, difference
from studies.saved_depth.expected import BLOCKS, BOUND, CLAIMS, PRIMARY
from studies.saved_depth.page import solved_mean
from studies.saved_depth.trainings import MIXING, WRITING

DARK: Final = {
    style.INK: "#e6e9ee",
    style.MUTED: "#a3acb8",
    style.GRID: "#3a424d",
    style.PAPER: "#15181d",
    style.VOID: "#2b3139",
    style.BLUE: "#58b4e8",
    style.VERMILION: "#ff9a5c",
}
"""Colour on a light page → on a dark one."""


def picture(stored: Stored) -> bytes:
    """Return an SVG that follows the reader's light or dark setting."""
    return with_dark_colours(render(draw(stored), "svg").decode()).encode()


def with_dark_colours(svg: str) -> str:
    """Return the picture with its colours as variables, which have other values on a dark page."""
    for light in DARK:
        svg = re.sub(light, f"var({style.CSS_NAMES[light]})", svg, flags=re.IGNORECASE)
    light_values, dark_values = (
        "".join(f"{style.CSS_NAMES[light]}:{(light, dark)[number]};" for light, dark in DARK.items())
        for number in range(2)
    )
    css = f"<style>:root{{{light_values}}}@media (prefers-color-scheme:dark){{:root{{{dark_values}}}}}</style>"
    return re.sub(r"(<svg[^>]*>)", lambda match: match[1] + css, svg, count=1)


def draw(stored: Stored) -> Figure:
    """Draw depths on the left and differences on the right."""
    with style.applied():
        figure = Figure(figsize=(10.4, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        _depths(left, stored)
        _differences(right, stored)
        entries = dict(zip(*reversed(right.get_legend_handles_labels())))
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, fontsize=8)
        figure.draw_without_rendering()
    return figure


def _depths(ax: Axes, stored: Stored) -> None:
    conditions = [condition for condition in (*WRITING, *MIXING) if condition.name in stored]
    for place, condition in enumerate(conditions):
        records = stored[condition.name]
        null = [float(np.nanmean(np.array(values, float))) for values in records[0]["untrained"][PRIMARY]]
        depths = [solved_mean(record, PRIMARY) for record in records]
        ax.plot(null, [place] * len(null), "|", color=style.MUTED, markersize=9)
        ax.plot(depths, [place] * len(depths), "o", color=style.BLUE, markersize=4.5)
    ax.set_yticks(
        range(len(conditions)),
        [condition.name.replace("_", " ").replace("-", ", ", 1).replace("-", " ") for condition in conditions],
    )
    ax.invert_yaxis()
    ax.set(xlim=(-0.1, BLOCKS + 0.1), xlabel=f"prediction depth of the answer (blocks, of {BLOCKS})")
    ax.set_title("How deep the answer is")


def _differences(ax: Axes, stored: Stored) -> None:
    ax.axvspan(-BOUND, BOUND, color=style.VOID, zorder=0, label=f"equivalence bound, ±{BOUND:g}")
    ax.axvline(0, color=style.MUTED, linewidth=0.9)
    for place, claim in enumerate(CLAIMS):
        result = difference(stored, claim, PRIMARY)
        if result is None:
            continue
        mean, low, high = result.trained
        named = place == 0
        label = "mean of three seeds, 95 % interval" if named else None
        ax.plot([low, high], [place, place], color=style.VERMILION, linewidth=1.6)
        ax.plot([mean], [place], "D", color=style.VERMILION, markersize=5, label=label)
        ax.plot(
            result.by_seed, [place + 0.22] * 3, "o", color=style.BLUE, markersize=3.5, label="a seed" if named else None
        )
        if not claim.same_prompts:
            untrained = result.untrained.mean
            ax.plot(
                [untrained], [place - 0.22], "|", color=style.MUTED, markersize=9, label="untrained" if named else None
            )
    ax.set_yticks(range(len(CLAIMS)), [claim.subject for claim in CLAIMS])
    ax.invert_yaxis()
    ax.set(xlabel="difference of prediction depth (blocks)")
    ax.set_title("What the condition changes")
