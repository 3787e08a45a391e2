"""All figures, in the order of a report. A new figure is a module with a ``FIGURE`` and a line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bathyscope.errors import OptionError
from bathyscope.report.figures import (
    attention_locality,
    cka,
    depth_score,
    direct,
    drop,
    effective_depth,
    erasure,
    gradient,
    integrated_gradients,
    lens,
    neurons,
    repeat,
    residual,
    skip,
    stages,
    swap,
    swap_cosine,
)
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run

FIGURES: Final[dict[str, FigureKind]] = {
    module.FIGURE.name: module.FIGURE
    for module in (
        effective_depth,
        residual,
        lens,
        skip,
        direct,
        depth_score,
        erasure,
        integrated_gradients,
        gradient,
        drop,
        swap,
        repeat,
        swap_cosine,
        cka,
        attention_locality,
        neurons,
        stages,
    )
}


def drawable(run: Run, options: FigureOptions | None = None) -> dict[str, Sequence[Panel]]:
    """Figures that can be drawn from a run, each with its panels.

    Raises:
        OptionError: there is none.
    """
    kinds = [kind for kind in FIGURES.values() if kind.drawable(run)]
    drawn = {kind.name: kind.panels(run, options or FigureOptions()) for kind in kinds}
    found = {name: panels for name, panels in drawn.items() if panels}
    if not found:
        raise OptionError(
            f"There is nothing to draw: the run holds {', '.join(run.measures) or 'no measure'}, and figures "
            f"exist for {', '.join(FIGURES)}. Survey again with at least one of these."
        )
    return found
