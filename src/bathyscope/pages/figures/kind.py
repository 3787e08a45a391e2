"""The protocol of figures: a run becomes panels and a caption, computed once, and drawn alone or together.

A figure is a function from a run to a ``Drawing``. A panel is data and a way to draw it: alone (a page arranges panels
to fit the screen), with the others of its figure (an exported file), or, for its ``shared`` content, together with
other runs. To add a figure, put a module with a ``FIGURE`` into ``of/``, or declare an entry point in
the group ``bathyscope.figures``.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, FigureBase
from matplotlib.text import Text

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, describe_value
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.fitting import fit_texts, give_title_to_axes
from bathyscope.pages.figures.kit.layout import MeasuredOnce, Rounded
from bathyscope.pages.figures.kit.surface import AxesSurface, list_texts
from bathyscope.pages.figures.kit.texts import drawn_text
from bathyscope.pages.figures.options import FigureOptions, options_of
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.faults import faults_in

_HEADLINE_POINTS = 8
_LETTERS_PER_INCH = 14
_LONGEST_LINE = 100


class Member(NamedTuple):
    """One of several runs in a picture: its name, its number among the runs, its content, and its L if known."""

    run: str
    number: int
    content: Any
    blocks: int | None = None


@dataclass(frozen=True)
class Shared:
    """Content of a panel that other runs may have too.

    Args:
        name: of the picture of several runs, unique within its figure.
        key: equal where the contents of two runs belong in one picture.
        content: the data that the panel draws.
        together: makes the picture of two or more runs from its name; None where they cannot be compared.
    """

    name: str
    key: str
    content: Any
    together: Callable[[str, Sequence[Member]], Panel | None]


@dataclass(frozen=True)
class Panel:
    """One picture with its own axes.

    Args:
        name: unique within its figure, e.g. ``"norms"``.
        draw: fills an empty figure or subfigure.
        alt: description for readers who cannot see the picture.
        size: width and height in inches when drawn alone.
        shared: content that is drawn together with that of other runs.
        draw_one: fills a surface of one axes, where ``draw`` needs several; None where it needs one itself, or cannot
            do with one.
        cut: makes the same panel of some blocks alone; None where the panel has no axis of blocks.

    Example:
        >>> from bathyscope.extend.figures import Panel
        >>> Panel("loss", lambda figure: figure.subplots().plot([3.1, 2.7]), "The loss falls from 3.1 to 2.7.").size
        (4.6, 3.2)
    """

    name: str
    draw: Callable[[FigureBase], None]
    alt: str
    size: tuple[float, float] = style.PANEL_SIZE
    shared: tuple[Shared, ...] = ()
    draw_one: Callable[[FigureBase], None] | None = None
    cut: Callable[[range], Panel | None] | None = None

    def __post_init__(self) -> None:
        if not callable(self.draw):
            raise OptionError(
                f"Panel {self.name!r}: draw={describe_value(self.draw)} cannot be called; give a function that takes a "
                "figure and fills it."
            )
        if not _is_size(self.size):
            raise OptionError(
                f"Panel {self.name!r}: size={describe_value(self.size)} is no size; give width and height in "
                "inches above 0."
            )


def _is_size(size: object) -> bool:
    """Whether width and height are two lengths."""
    lengths = size if isinstance(size, tuple | list) else ()
    return len(lengths) == 2 and all(isinstance(inches, int | float) and 0 < inches < math.inf for inches in lengths)


@dataclass(frozen=True)
class Drawing:
    """A figure of one run, or of several together.

    Args:
        panels: only those with a value.
        note: the figure's part of the caption.
        joint_note: the caption of the picture of several runs; a general one where empty.
        heading: of the figure, on a page.
        blocks: L of the model, for places along the depth as shares of it.
    """

    panels: Sequence[Panel]
    note: str
    joint_note: str = ""
    heading: str = ""
    blocks: int | None = None

    def alone(self) -> Figure:
        """Draw all panels as one figure under the caption."""
        return arrange(self.note, self.panels)


@dataclass(frozen=True)
class FigureKind:
    """One figure of a report.

    Args:
        name: also the exported file's name.
        heading: on the page.
        needs: variables of which the run must have at least one; where empty, the measure is enough.
        make: draws a run.
        measure: the group of the run that is drawn; the name where empty.
        others: further groups that it needs.
    """

    name: str
    heading: str
    needs: tuple[str, ...]
    make: Callable[[Run, FigureOptions], Drawing]
    measure: str = ""
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # The class is frozen, and a default cannot refer to another field.
        object.__setattr__(self, "measure", self.measure or self.name)

    def drawable(self, run: Run) -> bool:
        """Return whether the run holds this figure's measure with something in it."""
        return {self.measure, *self.others} <= set(run.measures) and (
            not self.needs or any(name in run[self.measure] for name in self.needs)
        )

    def drawing(self, run: Run, options: FigureOptions | None = None) -> Drawing:
        """Make panels and caption; the caption names each published fault that the run reproduces.

        Raises:
            OptionError: the run lacks the measure, or has only some of the variables that the figure shows together;
                a label that makes no clusters.
        """
        if not self.drawable(run):
            needed = " and ".join(map(repr, (self.measure, *self.others)))
            raise OptionError(
                f"Figure {self.name!r} needs the measure {needed}; this run holds: "
                f"{', '.join(run.measures) or 'nothing'}. Survey again with that measure."
            )
        options = options_of(options, run.identity.seed, run.identity.preset)
        if options.cluster is not None:
            run.prompts.clusters(options.cluster)
        try:
            drawing = self.make(run, options)
        except KeyError as error:
            if "variables" not in run.cut:
                raise
            # A selection may hold some of the variables that one panel draws together.
            raise OptionError(
                f"Figure {self.name!r} needs a variable that was not selected ({error.args[0]}). Select it too, or "
                "draw the whole run."
            ) from error
        faults = [fault.note() for fault in faults_in(run.identity.measures) if fault.measure == self.measure]
        note = " ".join([drawing.note.strip(), *faults])
        return replace(drawing, note=note, heading=self.heading, blocks=run.identity.n_blocks)

    def panels(self, run: Run, options: FigureOptions | None = None) -> Sequence[Panel]:
        """Return the panels of :meth:`drawing`."""
        return self.drawing(run, options).panels


def drop_empty(panels: Iterable[Panel | None]) -> list[Panel]:
    """Return the panels that show something: None stands for one without any value."""
    return [panel for panel in panels if panel is not None]


def arrange(heading: str, panels: Sequence[Panel]) -> Figure:
    """Arrange panels in one figure under a heading: two narrow ones in a row, wide ones alone.

    Args:
        heading: a caption, which is broken into lines.
        panels: one or more.

    Raises:
        OptionError: no panel, or something else in place of a list of them.

    Example:
        >>> from bathyscope.extend.figures import Panel, arrange
        >>> loss = Panel("loss", lambda figure: figure.subplots().plot([3.1, 2.7]), "The loss falls from 3.1 to 2.7.")
        >>> len(arrange("Loss by epoch", [loss]).subfigs)
        1
    """
    if not isinstance(panels, Sequence) or not panels or not all(isinstance(panel, Panel) for panel in panels):
        raise OptionError(
            f"panels={describe_value(panels)} are not one Panel or more; give a list such as [Panel(name, draw, alt)]."
        )
    rows = _pair_panels(panels)
    widths = [sum(panel.size[0] for panel in row) for row in rows]
    heights = [max(panel.size[1] for panel in row) for row in rows]
    width = max(widths)
    with style.applied():
        headline = textwrap.wrap(drawn_text(heading), width=int(width * _LETTERS_PER_INCH))
        top = 0.1 + style.LINE_INCHES * len(headline) if headline else 0.0
        figure = Picture(figsize=(width, sum(heights) + top), layout=MeasuredOnce())
        if headline:
            figure.suptitle("\n".join(headline), x=0.01, ha="left", color=style.MUTED, fontsize=_HEADLINE_POINTS)
        strips = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)
        # Each panel has its own subfigure, so it can be drawn by the same function as on a page.
        for row, own_width, strip in zip(rows, widths, strips.flat):
            # A row that is narrower than the figure keeps its proportions and leaves the rest empty.
            shares = [panel.size[0] for panel in row] + ([width - own_width] if own_width < width else [])
            for panel, cell in zip(row, strip.subfigures(1, len(shares), squeeze=False, width_ratios=shares).flat):
                fill(cell, panel)
        # matplotlib creates ticks at the first drawing, with the settings of that moment: draw while the style applies.
        figure.draw_without_rendering()
    return figure


class TitledAxes(Axes):
    """Axes with one title, at the left: whoever sets it replaces it."""

    def set_title(  # type: ignore[override]
        self, label: str, fontdict: dict[str, Any] | None = None, loc: Any = None, **look: Any
    ) -> Text:
        """Set the title; it looks as the one that it replaces."""
        if loc is None and fontdict is None and (present := super().get_title("left")):
            title: Any = self._left_title  # type: ignore[attr-defined]
            look = {"fontsize": title.get_fontsize(), "fontweight": title.get_fontweight(), **look} if present else look
        return super().set_title(label, fontdict, loc or "left", **look)

    def get_title(self, loc: Any = "left") -> str:
        """Return the title."""
        return super().get_title(loc)


class Picture(Figure):
    """A figure that a notebook shows, whether or not the caller has imported ``pyplot``."""

    def add_subplot(self, *place: Any, **settings: Any) -> Any:
        """Add axes whose title is at the left."""
        return super().add_subplot(*place, **{"axes_class": TitledAxes, **settings})

    def _repr_png_(self) -> bytes:
        from bathyscope.pages.figures.render import render

        return render(self, "png")


def draw_panel(
    panel: Panel,
    width: float | None = None,
    *,
    changed_stay: bool = False,
    finish: Callable[[Figure], None] | None = None,
) -> Figure:
    """Draw one panel as a figure of its own size, or of another width in inches, as high as its texts then need.

    Args:
        changed_stay: settings that the caller has changed from matplotlib's own stay in place of the style's.
        finish: changes what is drawn before its texts are fitted.
    """
    with style.applied(changed_stay):
        size = panel.size if width is None else (width, panel.size[1] * width / panel.size[0])
        # In a narrow figure the place of axes changes which ticks they have, and so how far their labels reach.
        figure = Picture(figsize=size, layout=MeasuredOnce() if width is None else Rounded())
        fill(figure, panel)
        if finish is not None:
            finish(figure)
        if width is not None:
            fit_texts(figure)
    return figure


def draw_for_user(panel: Panel, width: float | None, finish: Callable[[Figure], None]) -> Figure:
    """Draw one panel as a figure that its caller may change: it has the caller's settings, and its axes their title."""
    figure = draw_panel(panel, width, changed_stay=True, finish=finish)
    with style.applied(changed_stay=True):
        give_title_to_axes(figure)
        # matplotlib creates ticks at the first drawing, with the settings of that moment: draw while the style applies.
        figure.draw_without_rendering()
    return figure


def add_heading(panel: Panel, name: str) -> Panel:
    """Return the panel under a name, which precedes any heading that it has."""
    width, height = panel.size
    return replace(panel, draw=partial(_draw_headed, draw=panel.draw, name=name), size=(width, height + 0.2))


def _draw_headed(figure: FigureBase, draw: Callable[[FigureBase], None], name: str) -> None:
    draw(figure)
    # Subfigures have no public way to read their heading.
    suptitle = getattr(figure, "_suptitle", None)
    heading = "" if suptitle is None else suptitle.get_text()
    head_figure(figure, f"{name}: {heading}" if heading else name)


def fill(figure: FigureBase, panel: Panel) -> None:
    """Draw a panel and replace what its texts cannot show; labels of ticks must arrive as :func:`drawn_text`."""
    panel.draw(figure)
    for text in _find_texts(figure):
        _replace_letters(text)


def fill_axes(ax: Axes, panel: Panel) -> AxesSurface:
    """Draw a panel into somebody's axes, with their settings; texts of theirs stay as they are."""
    surface = AxesSurface(ax)
    present = set(list_texts(surface))
    words = {text: text.get_text() for text in present}
    draw = panel.draw_one or panel.draw
    draw(cast(FigureBase, surface))
    for text in list_texts(surface):
        if text not in present or text.get_text() != words[text]:
            _replace_letters(text)
            # Names of models and data may hold a dollar sign; texts of the caller may be mathematics.
            text.set_parse_math(False)
    return surface


def _replace_letters(text: Text) -> None:
    lines = drawn_text(text.get_text()).split("\n")
    # A text that the layout need not measure was measured by whoever placed it.
    text.set_text("\n".join(elided(line, _LONGEST_LINE) if text.get_in_layout() else line for line in lines))


def _find_texts(artist: Artist) -> Iterator[Text]:
    """Yield all texts inside an artist except those of ticks, which do not exist until they are asked for."""
    if isinstance(artist, Text):
        yield artist
    for child in (artist.label,) if isinstance(artist, Axis) else artist.get_children():
        yield from _find_texts(child)


def _pair_panels(panels: Sequence[Panel]) -> list[list[Panel]]:
    rows: list[list[Panel]] = []
    for panel in panels:
        last = rows[-1] if rows else []
        if len(last) == 1 and max(panel.size[0], last[0].size[0]) <= style.PAIRED_UP_TO:
            last.append(panel)
        else:
            rows.append([panel])
    return rows
