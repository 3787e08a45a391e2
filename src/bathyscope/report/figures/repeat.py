"""Repeat: each block of a window runs several times in a row. Source: lad2024."""

from __future__ import annotations

from typing import Final

from bathyscope.report.figures.curves import Change, schedule_figure

FIGURE: Final = schedule_figure(
    Change(
        measure="repeat",
        heading="A window of blocks repeated",
        circumstance="with a window repeated",
        axis="first block of the window (0-based index)",
        what="Each window of neighbouring blocks in turn is repeated, every block of it in a row.",
    )
)
draw, caption = FIGURE.draw, FIGURE.caption
