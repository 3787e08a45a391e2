"""A canvas as a figure of matplotlib: the second printer of what is drawn for pages, with the same marks and words.

The axes are in the numbers of the picture and not in units of the canvas, so that whoever has the figure can go on
drawing in them: blocks across, and shares upwards where there is a curve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Annotation

from bathyscope.pages.figures.kit.relabel import mark_label
from bathyscope.pages.figures.kit.surface import AxesSurface
from bathyscope.pages.figures.kit.texts import measure_text
from bathyscope.pages.head.canvas import ROLES, Area, Canvas, Dot, Element, NumberFrame, Stroke, Tile, Words

_POINTS_PER_INCH: Final = 72
_SIDES: Final = {"start": "left", "middle": "center", "end": "right"}
_HALO_POINTS: Final = 0.6


def paint(figure: FigureBase, draw: Callable[[float], Canvas]) -> None:
    """Paint a picture into an empty figure, subfigure or axes, as large as there is room.

    Args:
        draw: makes the picture for a width in inches.
    """
    # Figures and subfigures have both, and their common base declares neither.
    surface: Any = figure
    ax: Axes = figure.subplots()
    ax.set_axis_off()
    layout = ax.figure.figure.get_layout_engine()
    if isinstance(figure, AxesSurface) and layout is not None:
        # Somebody's axes have their place once their figure is laid out.
        layout.execute(ax.figure.figure)
    width, height = (side / surface.dpi for side in surface.bbox.size)
    canvas = draw(width)
    # Where there is less height than the picture has, it is drawn as a wider one, in smaller letters.
    canvas = draw(width * max(1.0, canvas.height * width / canvas.width / height))
    frame = canvas.frame or NumberFrame(0.0, 0.0, canvas.width, canvas.height, canvas.width)
    painter = _Painter(ax, frame, _POINTS_PER_INCH * width / canvas.width)
    for element in canvas.elements:
        painter.add(element)
    ax.set_xlim(painter.across(0.0), painter.across(canvas.width))
    ax.set_ylim(painter.up(canvas.height), painter.up(0.0))


class _Painter:
    """Puts elements into axes, in the order in which they cover each other.

    Args:
        points: of a unit of the canvas.
    """

    def __init__(self, ax: Axes, frame: NumberFrame, points: float) -> None:
        self._ax = ax
        self._frame = frame
        self._points = points

    def across(self, x: float) -> float:
        """Return the place of the axes for one of the canvas."""
        return (x - self._frame.left) / self._frame.width * self._frame.end

    def up(self, y: float) -> float:
        """Return the height in the axes for one of the canvas, which counts from its top."""
        return 1 - (y - self._frame.top) / self._frame.height

    def add(self, element: Element) -> None:
        """Paint an element over those before it."""
        match element:
            case Words():
                self._write(element)
            case Stroke():
                line = Line2D(
                    *zip(*self._place(element)),
                    color=ROLES[element.role],
                    linewidth=element.width * self._points,
                    alpha=element.opacity,
                    solid_joinstyle="round" if element.is_curve else "miter",
                    solid_capstyle="butt",
                )
                if element.dash:
                    # matplotlib multiplies dashes by the width of the line, and SVG does not.
                    line.set_linestyle((0, tuple(float(length) / element.width for length in element.dash.split())))
                self._show(self._ax.add_line(line))
            case Area():
                self._fill(Polygon(self._place(element)), ROLES[element.role], element.opacity)
            case Tile():
                width, height = element.size
                right, foot = self.across(element.x + width), self.up(element.y + height)
                corner = (self.across(element.x), foot)
                tile = Rectangle(corner, right - corner[0], self.up(element.y) - foot)
                self._fill(tile, element.fill or ROLES[element.role], element.opacity)
            case Dot():
                dot = Line2D(
                    [self.across(element.x)],
                    [self.up(element.y)],
                    color=ROLES[element.role],
                    marker="o",
                    markersize=2 * element.radius * self._points,
                    markeredgewidth=0,
                )
                self._show(self._ax.add_line(dot))

    def _place(self, element: Stroke | Area) -> list[tuple[float, float]]:
        return [(self.across(x), self.up(y)) for x, y in element.points]

    def _fill(self, patch: Any, colour: str, opacity: float) -> None:
        patch.set(facecolor=colour, alpha=opacity, linewidth=0)
        self._show(self._ax.add_patch(patch))

    def _write(self, words: Words) -> None:
        """Write a text and its remark, next to each other in any font."""
        place, baseline = self.across(words.x), self.up(words.y)
        if not words.remark:
            self._letter(words, (place, baseline), "data", _SIDES[words.anchor])
            return
        gap = 0.6 * words.remark_size * self._points
        remark = Words(0, 0, words.remark, words.remark_size, role="muted", halo=words.halo)
        # The second is placed by where the first is in the end, whose width depends on the resolution too.
        if words.anchor == "end":
            end = self._letter(remark, (place, baseline), "data", "right")
            self._letter(words, (0, baseline), (end, "data"), "right", -gap)
            return
        begin = 0.0
        if words.anchor == "middle":
            widths = [measure_text(part.content, part.size * self._points, _weigh(part)) for part in (words, remark)]
            begin = -(_POINTS_PER_INCH * sum(widths) + gap) / 2
        start = self._letter(words, (place, baseline), "data", "left", begin)
        self._letter(remark, (1, baseline), (start, "data"), "left", gap)

    def _letter(
        self, words: Words, place: tuple[float, float], coordinates: Any, side: str, offset: float = 0.0
    ) -> Annotation:
        """Write one text.

        Args:
            place: in ``coordinates``, as matplotlib takes both.
            offset: to the right, in points.
        """
        label = self._ax.annotate(
            words.content,
            place,
            (offset, 0),
            xycoords=coordinates,
            textcoords="offset points",
            ha=side,
            va="baseline",
            fontsize=words.size * self._points,
            fontweight=_weigh(words),
            color=words.fill or ROLES[words.role],
            annotation_clip=False,
            parse_math=False,
        )
        if words.halo:
            label.set_bbox({"facecolor": ROLES["paper"], "alpha": 0.8, "linewidth": 0, "pad": _HALO_POINTS})
        if words.label:
            mark_label(label, words.label)
        self._show(label)
        return label

    def _show(self, artist: Artist) -> None:
        artist.set_clip_on(False)
        artist.set_zorder(2)
        # Nothing reaches beyond the canvas, whose place is known: the layout need not measure it.
        artist.set_in_layout(False)


def _weigh(words: Words) -> str:
    return "bold" if words.bold else "normal"
