"""Swap: two neighbouring blocks in the other order. Source: lad2024."""

from __future__ import annotations

from typing import Final

from bathyscope.report.figures.curves import Change, schedule_figure
from bathyscope.report.figures.lines import PLACES

FIGURE: Final = schedule_figure(
    Change(
        measure="swap",
        heading="Two neighbouring blocks swapped",
        circumstance="with neighbours swapped",
        axis=PLACES["swapped"],
        what=lambda run: "Each pair of neighbours in turn runs in the other order: block ℓ+1, then block ℓ.",
    )
)
