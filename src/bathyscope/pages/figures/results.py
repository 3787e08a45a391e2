"""Pictures of results that are no runs, by the name that a result has for its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from bathyscope.pages.figures.kind import Drawing
from bathyscope.pages.figures.of import (
    among,
    course,
    depth_performance,
    diff,
    evaluation,
    exits,
    grouped,
    maps,
    plan,
    probes,
    subjoiner,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from bathyscope.core.result import TabledResult

DRAWINGS: Final[Mapping[str, Callable[[xr.Dataset], Drawing]]] = {
    "among": among.drawing,
    "course": course.drawing,
    "depth_performance": depth_performance.drawing,
    "diff": diff.drawing,
    "evaluation": evaluation.drawing,
    "exits": exits.drawing,
    "grouped": grouped.drawing,
    "ing": probes.ing,
    "maps": maps.drawing,
    "plan": plan.drawing,
    "subjoiner": subjoiner.drawing,
    "wic": probes.wic,
}


def draw_result(result: TabledResult) -> Drawing | None:
    """Draw the panels of a result; None where it has no picture, or nothing that could be drawn."""
    if not result.figure:
        return None
    drawing = DRAWINGS[result.figure](result.data)
    return drawing if drawing.panels else None


def picture(result: TabledResult) -> Figure | None:
    """Return the figure of a result as matplotlib draws it, all panels under the caption."""
    drawing = draw_result(result)
    return None if drawing is None else drawing.alone()
