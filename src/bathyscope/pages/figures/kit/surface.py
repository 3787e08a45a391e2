"""Somebody's axes as the surface of a panel: drawn with their settings, fitted into their place, and theirs afterwards.

A panel asks a figure for axes, a legend, a colour bar and a heading. Here these are the given axes, a legend inside of
them, a colour bar at their right, and their own title.
"""

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import TightLayoutEngine
from matplotlib.text import Text

from bathyscope.pages.figures.kit.compact import SCALES, Letters, has_room
from bathyscope.pages.figures.kit.divided import Division, divide
from bathyscope.pages.figures.kit.legend import clear_legend, place_legend

_MARGINS: Final = ("left", "right", "bottom", "top", "wspace", "hspace")
_MARGINS_SET: Final[WeakKeyDictionary[Figure, tuple[float, ...]]] = WeakKeyDictionary()
"""Margins that figures without a layout were given here."""
_POINTS_PER_INCH: Final = 72
_ROOM_FOR_NUMBERS: Final = 1.2
"""Added to margins at the left, in letters: other limits may have longer numbers."""
_FEWEST_LETTERS: Final = 8
_BLANK: Final = "\u00a0|"
"""A title of one line, which is removed again."""
_BELOW: Final = (0.5, 0.0)
"""Place of a legend of divided axes, in their width and height."""


class AxesSurface:
    """What a panel draws on where axes are given.

    Args:
        ax: the axes. A panel of one plot fills them; one of several divides their place and leaves them as a frame
            without lines, which has the title.
    """

    def __init__(self, ax: Axes) -> None:
        owner: Any = ax.get_figure()
        # The figure of a subfigure is the whole one, and that of a figure itself.
        self.figure: Figure = owner.figure
        self.axes = ax
        self.plots: list[Axes] = [ax]
        self.bars: list[Axes] = []
        self.division: Division | None = None
        self.letters = Letters()

    @property
    def bbox(self) -> Any:
        """The box of the axes, in pixels."""
        return self.axes.bbox

    @property
    def dpi(self) -> float:
        """Pixels of an inch."""
        return float(self.figure.dpi)

    def subplots(self, nrows: int = 1, ncols: int = 1, *, squeeze: bool = True, **sharing: Any) -> Any:
        """Return the axes, or a grid of new ones in their place."""
        if nrows == ncols == 1:
            return self.axes if squeeze else np.array([[self.axes]], dtype=object)
        self.division = divide(self.axes, nrows, ncols, **sharing)
        self.plots = list(self.division.axes.flat)
        return np.squeeze(self.division.axes) if squeeze else self.division.axes

    def suptitle(self, text: str, **_look: Any) -> Text:
        """Give the axes a title, in their own look."""
        return self.axes.set_title(text)

    def legend(self, *entries: Any, **look: Any) -> Any:
        """Draw the legend: inside where it covers least, or below divided axes."""
        chosen = {name: value for name, value in look.items() if name in ("handles", "labels", "title")}
        if self.plots == [self.axes]:
            return place_legend(self.axes, *entries, **chosen, loc="best")
        if not entries and not chosen.keys() & {"handles", "labels"}:
            chosen["handles"], chosen["labels"] = self.plots[0].get_legend_handles_labels()
        columns = look.get("ncols", 1)
        return self.axes.legend(*entries, **chosen, loc="upper center", bbox_to_anchor=_BELOW, ncols=columns)

    def colorbar(self, image: Any, ax: object = None, location: Literal["right"] = "right", **look: Any) -> Any:
        """Draw the colour bar at the right of the axes, which give it some of their width."""
        chosen = {name: value for name, value in look.items() if name.startswith("extend")}
        owner: Any = self.axes.get_figure()
        bar = owner.colorbar(image, ax=self.axes, location="right", **chosen)
        self.bars.append(bar.ax)
        return bar

    def align_ylabels(self, *_axes: Any) -> None:
        """Leave labels where they are."""

    def parts(self) -> list[Axes]:
        """Return the given axes, those that divide them, and those of colour bars."""
        return list(dict.fromkeys([self.axes, *self.plots, *self.bars]))


_SURFACES: Final[WeakKeyDictionary[Figure, list[AxesSurface]]] = WeakKeyDictionary()
"""Axes of a figure that panels were drawn in, in their order."""


def list_artists(surface: AxesSurface) -> dict[Artist, None]:
    """Return lines, bands, maps, marks and texts inside of the axes of a surface, in the order of drawing."""
    return dict.fromkeys(
        artist
        for ax in (surface.axes, *(plot for plot in surface.plots if plot is not surface.axes))
        for artist in [*ax.lines, *ax.collections, *ax.patches, *ax.images, *ax.texts]
    )


def list_texts(surface: AxesSurface) -> Iterator[Text]:
    """Yield texts of the surface but for those of ticks, which do not exist until they are asked for."""
    for part in surface.parts():
        yield from (*_list_labels(part), *part.texts)
        if (legend := part.get_legend()) is not None:
            yield from (*legend.get_texts(), legend.get_title())


def _list_labels(ax: Axes) -> tuple[Text, ...]:
    return ax.title, ax.xaxis.label, ax.yaxis.label


def settle(surface: AxesSurface, room_for_title: bool) -> None:
    """Fit what was drawn into the place of the axes: letters of the caller's sizes, in lines that have room.

    Args:
        room_for_title: leave a line for a title, where the panel has none of its own.
    """
    is_blank = room_for_title and not surface.axes.get_title()
    if is_blank:
        surface.axes.set_title(_BLANK)
    for bar in surface.bars:
        for axis in (bar.xaxis, bar.yaxis):
            axis.label.set_fontsize(mpl.rcParams["axes.labelsize"])
            # Further lines say how values were averaged, for which a bar next to axes has no room.
            axis.label.set_text(axis.label.get_text().split("\n")[0])
    parts = surface.parts()
    surface.letters.remember([text for part in parts for text in _list_labels(part)], parts)
    # Further axes take room from earlier ones, whose letters shrink along.
    neighbours = _SURFACES.setdefault(surface.figure, [])
    neighbours[:] = [other for other in neighbours if other.axes in surface.figure.axes] + [surface]
    _fit([surface])
    for scale in SCALES:
        if all(has_room(other.axes) for other in neighbours):
            break
        for other in neighbours:
            other.letters.shrink(scale)
        _fit(neighbours)
    if is_blank:
        surface.axes.set_title("")
    if surface.division is not None:
        surface.division.fit()
    # Other axes may have become smaller for the labels of these.
    for ax in surface.figure.axes:
        clear_legend(ax)


def _fit(surfaces: Sequence[AxesSurface]) -> None:
    """Break texts where they are longer than their axes, and place the axes of the figure next to them."""
    # Places follow from labels and labels from places, so there are two rounds.
    for _ in range(2):
        for surface in surfaces:
            _arrange(surface)
        for surface in surfaces:
            if surface.division is not None:
                surface.division.fit()
            for part in surface.parts():
                if part in surface.bars or part.axison or part is surface.axes:
                    _break_labels(part)
            for part in surface.plots:
                _thin_names(part.yaxis)
    for surface in surfaces:
        _arrange(surface)


def _arrange(surface: AxesSurface) -> None:
    """Place the axes of the figure as its layout says; where it has none, by margins, unless the caller set them."""
    figure = surface.figure
    with warnings.catch_warnings():
        # A figure that is too small for its labels says so when it is drawn; here it is only measured.
        warnings.filterwarnings("ignore", "constrained_layout not applied|Tight layout not applied")
        warnings.filterwarnings("ignore", "This figure includes Axes that are not compatible with tight_layout")
        figure.draw_without_rendering()
        if figure.get_layout_engine() is None and _has_own_margins(surface.axes):
            # An engine that stays would take the caller's own margins away later.
            TightLayoutEngine().execute(figure)
            letter = mpl.rcParams["font.size"] / _POINTS_PER_INCH / figure.get_figwidth()
            figure.subplots_adjust(left=figure.subplotpars.left + _ROOM_FOR_NUMBERS * letter)
            _MARGINS_SET[figure] = _read_margins(figure.subplotpars)
            figure.draw_without_rendering()


def _has_own_margins(ax: Axes) -> bool:
    """Return whether the margins of the axes' grid are matplotlib's, or those that were set here."""
    place = ax.get_subplotspec()
    if place is None:
        return False
    owner: Any = ax.get_figure()
    figure: Figure = owner.figure
    grid: Any = place.get_topmost_subplotspec().get_gridspec()
    margins = _read_margins(grid.get_subplot_params(figure))
    settings: Any = mpl.rcParams
    usual = tuple(settings[f"figure.subplot.{name}"] for name in _MARGINS)
    return margins in (usual, _MARGINS_SET.get(figure))


def _read_margins(margins: Any) -> tuple[float, ...]:
    return tuple(getattr(margins, name) for name in _MARGINS)


def _break_labels(ax: Axes) -> None:
    """Break title and labels between words where they are longer than their axes."""
    box = ax.get_window_extent()
    for text, room, is_upright in (
        (ax.title, box.width, False),
        (ax.xaxis.label, box.width, False),
        (ax.yaxis.label, box.height, True),
    ):
        # Names of rows lie, and have lines of their own.
        if is_upright != (text.get_rotation() == 90):
            continue
        words = " ".join(text.get_text().split())
        extent = text.get_window_extent()
        length = extent.height if is_upright else extent.width
        longest = max(map(len, text.get_text().split("\n")), default=0)
        if words and length > room > 0:
            letters = max(_FEWEST_LETTERS, int(longest * room / length))
            text.set_text("\n".join(textwrap.wrap(words, letters, break_long_words=False)))


def _thin_names(axis: Axis) -> None:
    """Leave out names of rows that would run into each other."""
    labels = [label for label in axis.get_ticklabels() if label.get_text()]
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    if len(boxes) < 2 or boxes[0].y0 == boxes[-1].y0:
        return
    step = (boxes[-1].y0 - boxes[0].y0) / (len(boxes) - 1)
    every = int(np.ceil(max(box.height for box in boxes) / step))
    names = [label.get_text() for label in labels]
    if every > 1 and len(names) == len(axis.get_majorticklocs()):
        axis.set_ticks(axis.get_majorticklocs()[::every], labels=names[::every])
