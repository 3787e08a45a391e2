"""What replaces the explorer where no script runs: the conclusion and a picture of the run."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import Final

from bathyscope.core.text import legible
from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.of.profile import find_profile
from bathyscope.pages.figures.registry import figures_of
from bathyscope.pages.figures.render import render
from bathyscope.runs.run import Run

_PREFERRED: Final = ("residual.norms", "skip.all")
"""Panels that tell most of a run without a depth profile, the first that it has."""


def still_picture(run: Run) -> bytes | None:
    """Return a picture of a run as PNG; None where nothing of it can be drawn."""
    panel = picture_panel(run)
    return None if panel is None else render(draw_panel(panel), "png")


def picture_panel(run: Run) -> Panel | None:
    """Return the depth profile, or the panel that tells most of a run without one; None where nothing can be drawn."""
    profile = find_profile(run)
    if profile is not None:
        return profile
    kinds = figures_of(run)
    order = sorted(kinds, key=lambda name: [*(what.partition(".")[0] for what in _PREFERRED), name].index(name))
    for name in order:
        panels = {f"{name}.{panel.name}": panel for panel in kinds[name].panels(run)}
        if panels:
            chosen = next((what for what in _PREFERRED if what in panels), next(iter(panels)))
            return panels[chosen]
    return None


def still_html(runs: Sequence[Run], names: Sequence[str], picture: bytes | None) -> str:
    """Return the conclusions of runs and a picture of the first as HTML without scripts."""
    paragraphs = "".join(
        f"<p><strong>{escape(legible(name))}</strong>: {escape(legible(run.text))}</p>"
        for name, run in zip(names, runs)
    )
    image = ""
    if picture is not None:
        encoded = base64.b64encode(picture).decode("ascii")
        look = 'style="max-width: 100%"'
        image = f'<img {look} alt="A figure of {escape(legible(names[0]))}" src="data:image/png;base64,{encoded}">'
    note = "<p>The interactive views need a notebook that runs widgets; bathyscope.report writes them as a page.</p>"
    return f"<div>{paragraphs}{image}{note}</div>"
