"""The protocol of figures: from a run to panels and the words of a caption, computed once; drawn alone or together.

A figure is a function from a run to a ``Drawing``. A panel is data and the way to draw it: alone (a page lays panels
out to fit the screen), with the others of its figure (an exported file), or, as far as it is ``shared``, with the same
of other runs. To add a figure, write one module with a ``FIGURE`` and list it in ``registry``, or offer one by the
entry point group ``bathyscope.figures``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.figure import Figure, FigureBase
from matplotlib.text import Text

from bathyscope.core.text import elided
from bathyscope.errors import OptionError
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.layout import MeasuredOnce
from bathyscope.pages.figures.kit.texts import drawn_text
from bathyscope.pages.figures.options import FigureOptions, options_of
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.faults import faults_in

_HEADLINE_POINTS = 8
_LINE_INCHES = 0.16
_LETTERS_PER_INCH = 14
_LONGEST_LINE = 100


class Member(NamedTuple):
    """One of several runs in a picture: its name, its number among the runs, what it shows, and its L, if known."""

    run: str
    number: int
    shown: Any
    blocks: int | None = None


@dataclass(frozen=True)
class Shared:
    """What a panel shows and other runs may show too.

    Args:
        name: of the picture of several runs, unique within its figure.
        key: equal where two runs show the same thing.
        shown: the data.
        together: from the name and two runs or more to their picture; None where they cannot be compared.
    """

    name: str
    key: str
    shown: Any
    together: Callable[[str, Sequence[Member]], Panel | None]


@dataclass(frozen=True)
class Panel:
    """One picture with its own axes.

    Args:
        name: unique within its figure, e.g. ``"norms"``.
        draw: fills an empty figure or subfigure.
        alt: what a reader who cannot see the picture is told.
        size: width and height in inches when drawn alone.
        shared: what stands beside the same of other runs.
    """

    name: str
    draw: Callable[[FigureBase], None]
    alt: str
    size: tuple[float, float] = style.PANEL_SIZE
    shared: tuple[Shared, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """A figure of one run, or of several together.

    Args:
        panels: those without any value are left out.
        note: the part of the caption that is the figure's own.
        beside: the caption of what several runs share, where more is to be said than of any.
        heading: of the figure, on a page.
        blocks: L of the model, where places along the depth are to be shares of it.
    """

    panels: Sequence[Panel]
    note: str
    beside: str = ""
    heading: str = ""
    blocks: int | None = None

    def alone(self) -> Figure:
        """All panels in one figure under what is said of them."""
        return arrange(self.note, self.panels)


@dataclass(frozen=True)
class FigureKind:
    """One figure of a report.

    Args:
        name: also the exported file's name.
        heading: on the page.
        needs: variables of which at least one must be there; the measure alone where there is none of them.
        make: what can be drawn from a run.
        measure: the group of the run it is drawn from; the name where empty.
        others: further groups that it takes.
    """

    name: str
    heading: str
    needs: tuple[str, ...]
    make: Callable[[Run, FigureOptions], Drawing]
    measure: str = ""
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "measure", self.measure or self.name)

    def drawable(self, run: Run) -> bool:
        """Whether the run holds this figure's measure with something in it."""
        return {self.measure, *self.others} <= set(run.measures) and (
            not self.needs or any(name in run[self.measure] for name in self.needs)
        )

    def drawing(self, run: Run, options: FigureOptions | None = None) -> Drawing:
        """Panels and note, which also says which published fault the run reproduces.

        Raises:
            OptionError: the run lacks the measure, or is cut to some of the variables that the figure shows together;
                a label that makes no clusters.
        """
        if not self.drawable(run):
            needed = " and ".join(map(repr, (self.measure, *self.others)))
            raise OptionError(
                f"Figure {self.name!r} needs the measure {needed}; this run holds: "
                f"{', '.join(run.measures) or 'nothing'}. Survey again with that measure."
            )
        options = options_of(options, run.identity.seed)
        if options.cluster is not None:
            run.prompts.clusters(options.cluster)
        try:
            made = self.make(run, options)
        except KeyError as error:
            if "variables" not in run.cut:
                raise
            # what is drawn together need not have been selected together
            raise OptionError(
                f"Figure {self.name!r} needs more variables than were selected ({error.args[0]}); select that too, or "
                "draw the whole run."
            ) from error
        faults = [fault.note() for fault in faults_in(run.identity.measures) if fault.measure == self.measure]
        note = " ".join([made.note.strip(), *faults])
        return replace(made, note=note, heading=self.heading, blocks=run.identity.n_blocks)

    def panels(self, run: Run, options: FigureOptions | None = None) -> Sequence[Panel]:
        """The panels of :meth:`drawing`."""
        return self.drawing(run, options).panels


def arrange(heading: str, panels: Sequence[Panel]) -> Figure:
    """Panels in one figure under a heading: narrow ones two in a row, wide ones in a row of their own."""
    rows = _rows(panels)
    widths = [sum(panel.size[0] for panel in row) for row in rows]
    heights = [max(panel.size[1] for panel in row) for row in rows]
    width = max(widths)
    with style.applied():
        headline = textwrap.wrap(drawn_text(heading), width=int(width * _LETTERS_PER_INCH))
        top = 0.1 + _LINE_INCHES * len(headline)
        figure = Figure(figsize=(width, sum(heights) + top), layout=MeasuredOnce())
        figure.suptitle("\n".join(headline), x=0.01, ha="left", color=style.MUTED, fontsize=_HEADLINE_POINTS)
        strips = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)
        for row, own_width, strip in zip(rows, widths, strips.flat):
            # a row that is narrower than the figure keeps its proportions and leaves the rest empty
            shares = [panel.size[0] for panel in row] + ([width - own_width] if own_width < width else [])
            for panel, cell in zip(row, strip.subfigures(1, len(shares), squeeze=False, width_ratios=shares).flat):
                fill(cell, panel)
        # ticks come into being at the first drawing and take their looks from that moment's settings
        figure.draw_without_rendering()
    return figure


def draw_panel(panel: Panel) -> Figure:
    """One panel as a figure of its own size."""
    with style.applied():
        figure = Figure(figsize=panel.size, layout=MeasuredOnce())
        fill(figure, panel)
    return figure


def headed(panel: Panel, name: str) -> Panel:
    """The panel under a name, which stands before a heading that it may have."""
    width, height = panel.size
    return replace(panel, draw=partial(_draw_headed, draw=panel.draw, name=name), size=(width, height + 0.2))


def _draw_headed(figure: FigureBase, draw: Callable[[FigureBase], None], name: str) -> None:
    draw(figure)
    own = getattr(figure, "_suptitle", None)
    said = "" if own is None else own.get_text()
    figure.suptitle(f"{name}: {said}" if said else name, x=0.01, ha="left", fontsize=9.5, fontweight="bold")


def fill(figure: FigureBase, panel: Panel) -> None:
    """Draw a panel; whatever its texts hold can be shown. Labels of ticks are texts only later: they are given so."""
    panel.draw(figure)
    for text in _texts(figure):
        lines = drawn_text(text.get_text()).split("\n")
        text.set_text("\n".join(elided(line, _LONGEST_LINE) for line in lines))


def _texts(artist: Artist) -> Iterator[Text]:
    """All texts inside of an artist but those of ticks, which would only be made by looking for them."""
    if isinstance(artist, Text):
        yield artist
    for child in (artist.label,) if isinstance(artist, Axis) else artist.get_children():
        yield from _texts(child)


def _rows(panels: Sequence[Panel]) -> list[list[Panel]]:
    rows: list[list[Panel]] = []
    for panel in panels:
        last = rows[-1] if rows else []
        if len(last) == 1 and max(panel.size[0], last[0].size[0]) <= style.PAIRED_UP_TO:
            last.append(panel)
        else:
            rows.append([panel])
    return rows
