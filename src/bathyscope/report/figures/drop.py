"""Drop: one block left out at every position. Source: lad2024."""

from __future__ import annotations

from typing import Final

from bathyscope.report.figures.curves import Change, schedule_figure
from bathyscope.report.figures.lines import PLACES

FIGURE: Final = schedule_figure(
    Change(
        measure="drop",
        heading="One block dropped",
        circumstance="without one block",
        axis=PLACES["dropped"],
        what=lambda run: "Each block in turn is left out at all positions.",
    )
)
