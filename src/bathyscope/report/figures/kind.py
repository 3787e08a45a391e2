"""A kind of figure: which measure it needs, its panels, and what its caption says.

A panel is drawn alone (the page lays panels out to fit the screen) or together with the others of its kind
(an exported file). To add a figure, write one module with a ``FIGURE`` and list it in ``registry``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure, FigureBase

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.papers.faults import faults_in
from bathyscope.report.figures import style
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.report.figures.heat_map import HeatMap
    from bathyscope.store.run import Run

_HEADLINE_POINTS = 8
_LINE_INCHES = 0.16
_LETTERS_PER_INCH = 14


@dataclass(frozen=True)
class Panel:
    """One picture with its own axes.

    Args:
        name: unique within its kind, e.g. ``"norms"``.
        draw: fills an empty figure or subfigure.
        alt: what a reader who cannot see the picture is told.
        size: width and height in inches when drawn alone.
    """

    name: str
    draw: Callable[[FigureBase], None]
    alt: str
    size: tuple[float, float] = style.PANEL_SIZE


@dataclass(frozen=True)
class Together:
    """Several runs in one picture.

    Args:
        panels: from runs that all hold the measure, and their names.
        note: what is compared.
    """

    panels: Callable[[Sequence[Run], Sequence[str], FigureOptions], Sequence[Panel]]
    note: str


@dataclass(frozen=True)
class FigureKind:
    """One figure of a report.

    Args:
        name: also the exported file's name.
        measure: the group of the run it is drawn from.
        heading: its heading on the page.
        needs: variables of which at least one must be there.
        panels: what can be drawn from a run, panels without any value left out.
        note: the part of the caption that is its own.
        maps: what a page may show with values under the pointer, and side by side for several runs, by panel
            name; None where the kind has no maps.
        together: several runs in one picture; None where the kind compares none.
    """

    name: str
    measure: str
    heading: str
    needs: tuple[str, ...]
    panels: Callable[[Run, FigureOptions], Sequence[Panel]]
    note: Callable[[Run, FigureOptions], str]
    maps: Callable[[Run, FigureOptions], Mapping[str, HeatMap]] | None = None
    together: Together | None = None

    def drawable(self, run: Run) -> bool:
        """Whether the run holds this figure's measure with something in it."""
        return self.measure in run.measures and any(name in run[self.measure] for name in self.needs)

    def draw(self, run: Run, options: FigureOptions | None = None, panels: Sequence[str] | None = None) -> Figure:
        """The figure with all its panels, or with the named ones.

        Raises:
            OptionError: the run lacks the measure, all its values are missing, or a panel is unknown.
        """
        return compose(run, self._choose(run, options or FigureOptions(), panels))

    def caption(self, run: Run, options: FigureOptions | None = None) -> str:
        """What is seen, which published fault is reproduced, then model, data, counts and the noise floor."""
        faults = faults_in(run.identity.measures)
        notes = [fault.note() for fault in faults if fault.measure == self.measure]
        return " ".join([self.note(run, options or FigureOptions()).strip(), *notes, run.caption()])

    def _choose(self, run: Run, options: FigureOptions, names: Sequence[str] | None) -> Sequence[Panel]:
        if not self.drawable(run):
            raise OptionError(
                f"Figure {self.name!r} needs the measure {self.measure!r}; this run holds: "
                f"{', '.join(run.measures) or 'nothing'}. Survey again with that measure."
            )
        offered = {panel.name: panel for panel in self.panels(run, options)}
        if not offered:
            raise OptionError(
                f"Figure {self.name!r} has nothing to show: every value of {self.measure!r} is missing. "
                "The prompts may be too short for this measure; use longer ones."
            )
        for name in names or ():
            if name not in offered:
                raise OptionError(
                    f"Figure {self.name!r} has no panel {name!r}; this run allows: {', '.join(offered)}."
                    f"{did_you_mean(name, offered)}"
                )
        return [offered[name] for name in names or offered]


def compose(run: Run, panels: Sequence[Panel]) -> Figure:
    """Panels in one figure, headed by model, data, numbers of prompts and tokens, and noise floor."""
    return arrange(run.caption(), panels)


def arrange(heading: str, panels: Sequence[Panel]) -> Figure:
    """Panels in one figure under a heading: narrow ones two in a row, wide ones in a row of their own."""
    rows = _rows(panels)
    widths = [sum(panel.size[0] for panel in row) for row in rows]
    heights = [max(panel.size[1] for panel in row) for row in rows]
    width = max(widths)
    with style.applied():
        headline = textwrap.wrap(heading, width=int(width * _LETTERS_PER_INCH))
        top = 0.1 + _LINE_INCHES * len(headline)
        figure = Figure(figsize=(width, sum(heights) + top), layout="constrained")
        figure.suptitle("\n".join(headline), x=0.01, ha="left", color=style.MUTED, fontsize=_HEADLINE_POINTS)
        strips = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)
        for row, own_width, strip in zip(rows, widths, strips.flat):
            # a row that is narrower than the figure keeps its proportions and leaves the rest empty
            shares = [panel.size[0] for panel in row] + ([width - own_width] if own_width < width else [])
            for panel, cell in zip(row, strip.subfigures(1, len(shares), squeeze=False, width_ratios=shares).flat):
                panel.draw(cell)
        # ticks come into being at the first drawing and take their looks from that moment's settings
        figure.draw_without_rendering()
    return figure


def _rows(panels: Sequence[Panel]) -> list[list[Panel]]:
    rows: list[list[Panel]] = []
    for panel in panels:
        last = rows[-1] if rows else []
        if len(last) == 1 and max(panel.size[0], last[0].size[0]) <= style.PAIRED_UP_TO:
            last.append(panel)
        else:
            rows.append([panel])
    return rows


def draw_panel(panel: Panel) -> Figure:
    """One panel as a figure of its own size."""
    with style.applied():
        figure = Figure(figsize=panel.size, layout="constrained")
        panel.draw(figure)
    return figure
