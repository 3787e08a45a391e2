"""A figure of any width: texts shrink and break, ticks thin out and axes grow until nothing is cut or overlaps.

Where a panel is drawn narrower than on a page, its words need more lines, and its axes more height. Both are measured
on the figure itself, round by round, because every added line takes room from the axes next to it.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final, cast

from matplotlib.axes import Axes
from matplotlib.axis import Axis, Tick, YAxis
from matplotlib.figure import Figure, FigureBase
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.texts import measure_text, wrap_line

_SMALLEST_POINTS: Final = 6.0
_LEAST_POINTS: Final = 5.0
"""Of a word that would not fit in larger letters."""
_SMALLEST_SCALE: Final = 0.8
_ROUNDS: Final = 10
_PAD_INCHES: Final = 0.04
_LOWEST_INCHES: Final = 1.0
"""Height below which axes of curves or maps cannot be read."""
_ROW_INCHES: Final = 0.12
"""Height of a named row."""
_GROWTH_INCHES: Final = 0.4
"""Added where axes have no height at all."""
_FEWEST_ROWS: Final = 5
_TALLEST_INCHES: Final = 40.0
_NARROWEST_LINE: Final = 0.4
_SLACK: Final = 1.03
_EDGE: Final = 0.01
"""Place of a heading, in widths of the figure."""


def fit_texts(figure: Figure) -> None:
    """Fit a filled figure into its width; only its height may grow."""
    ratio = figure.get_figwidth() / style.PANEL_SIZE[0]
    _shrink_texts(figure, ratio)
    if ratio < 1:
        _move_title(figure)
    originals: dict[Text, str] = {}
    for _ in range(_ROUNDS):
        if not _lay_out(figure):
            figure.set_figheight(figure.get_figheight() + _GROWTH_INCHES)
            continue
        changed = _break_texts(figure, originals)
        has_room = _lay_out(figure) if changed else True
        missing = _measure_missing_height(figure) if has_room else _GROWTH_INCHES
        if missing > 0:
            figure.set_figheight(min(_TALLEST_INCHES, figure.get_figheight() + missing))
        # Ticks of axes that are still too low would be removed for no reason.
        elif not _thin_ticks(figure) and not changed:
            return


def _lay_out(figure: Figure) -> bool:
    """Place everything; say whether the figure had room for its axes, without which they keep no place."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.filterwarnings("always", "constrained_layout not applied")
        figure.draw_without_rendering()
    return not messages


def _move_title(figure: Figure) -> None:
    """Let the title of a single plot begin at the figure's edge, where a narrow figure has more room for it."""
    plots = [ax for ax in _list_plots(figure) if ax.get_title(loc="left")]
    if len(plots) == 1 and getattr(figure, "_suptitle", None) is None:
        heading = plots[0].get_title(loc="left")
        plots[0].set_title("")
        head_figure(figure, heading)
        for text in figure.findobj(Text):
            if text.get_text() == heading:
                text.set_fontsize(style.TITLE_POINTS * _SMALLEST_SCALE)


def give_title_to_axes(figure: Figure) -> None:
    """Make the heading of a single plot the title of its axes, which begins at the figure's edge as before."""
    heading = getattr(figure, "_suptitle", None)
    plots = list(_list_plots(figure))
    if heading is None or len(plots) != 1:
        return
    (ax,) = plots
    text, look = heading.get_text(), {"fontsize": _points_of(heading), "fontweight": heading.get_fontweight()}
    heading.remove()
    figure._suptitle = None  # type: ignore[attr-defined]
    title = ax.set_title(text, loc="left", **look)
    title.set_parse_math(False)
    _lay_out(figure)
    box = ax.get_window_extent()
    # In widths of the axes, so that it stays at the edge at any resolution.
    title.set_x((figure.bbox.x0 + _EDGE * figure.bbox.width - box.x0) / box.width)


def _shrink_texts(figure: FigureBase, ratio: float) -> None:
    """Scale all letters with the width of the figure, as far as they stay readable."""
    scale = min(1.0, max(_SMALLEST_SCALE, ratio))
    ticks: set[Text] = set()
    for axis in _list_axes_lines(figure):
        labels = axis.get_ticklabels()
        ticks.update(labels)
        if labels:
            axis.set_tick_params(labelsize=_shrink(_points_of(labels[0]), scale))
    for text in figure.findobj(Text):
        if text not in ticks:
            text.set_fontsize(_shrink(_points_of(text), scale))


def _points_of(text: Text) -> float:
    return float(text.get_fontsize())


def _is_upright(axis: Axis) -> bool:
    return isinstance(axis, YAxis)


def _shrink(points: float, scale: float) -> float:
    return min(points, max(_SMALLEST_POINTS, points * scale))


def _break_texts(figure: Figure, originals: dict[Text, str]) -> bool:
    """Break titles and labels of axes that are longer than the figure has room for; say whether any changed."""
    changed = False
    for text, ax, is_upright in _list_breakable(figure):
        box = text.get_window_extent()
        start, stop = (box.y0, box.y1) if is_upright else (box.x0, box.x1)
        first, last = _find_limits(figure, ax, is_upright)
        # Titles have their left edge where they have it; labels of axes grow to both sides of their middle.
        is_left = not is_upright and text.get_horizontalalignment() == "left"
        middle = (start + stop) / 2
        room = last - start if is_left else 2 * min(middle - first, last - middle)
        original = originals.setdefault(text, text.get_text())
        points, weight = _points_of(text), str(text.get_fontweight())
        # Letters on pixels are a few percent wider than by their outlines.
        outlined = max(measure_text(line, points, weight) for line in text.get_text().split("\n"))
        hinting = max(1.0, (stop - start) / figure.dpi / outlined) * _SLACK
        inches = max(_NARROWEST_LINE, room / figure.dpi / hinting - (1 if is_left else 2) * _PAD_INCHES)
        # A word that is wider than the room would be cut; smaller letters are better.
        widest = max(measure_text(word, points, weight) for word in original.split())
        if widest > inches:
            points = max(_LEAST_POINTS, points * inches / widest)
            text.set_fontsize(points)
        lines = [part for line in original.split("\n") for part in wrap_line(line, inches, points, weight)]
        if (broken := "\n".join(lines)) != text.get_text():
            text.set_text(broken)
            changed = True
    return changed


def _find_limits(figure: Figure, ax: Axes | None, is_upright: bool) -> tuple[float, float]:
    """Return how far a text of these axes may reach: to the figure's edges or heading, or half-way to other axes."""
    along = int(is_upright)
    first, last = 0.0, float(figure.bbox.size[along])
    if ax is None:
        return first, last
    heading = getattr(figure, "_suptitle", None)
    if is_upright and heading is not None:
        last = heading.get_window_extent().y0
    box = ax.get_window_extent()
    for other in _list_plots(figure):
        neighbour = other.get_window_extent()
        is_apart = neighbour.max[1 - along] <= box.min[1 - along] or neighbour.min[1 - along] >= box.max[1 - along]
        if other is ax or is_apart:
            continue
        if neighbour.min[along] >= box.max[along]:
            last = min(last, (neighbour.min[along] + box.max[along]) / 2)
        elif neighbour.max[along] <= box.min[along]:
            first = max(first, (neighbour.max[along] + box.min[along]) / 2)
    return first, last


def _thin_ticks(figure: Figure) -> bool:
    """Remove every second tick of an axis whose labels run into each other; names of rows all stay."""
    changed = False
    for axis in _list_axes_lines(figure):
        ticks, boxes = _measure_ticks(axis)
        is_upright = _is_upright(axis)
        if (is_upright and _has_names(axis)) or not _overlap(boxes, is_upright):
            continue
        labels = [tick.label1.get_text() for tick in ticks]
        axis.set_ticks([tick.get_loc() for tick in ticks][::2], labels=labels[::2])
        changed = True
    return changed


def _measure_missing_height(figure: Figure) -> float:
    """Return how many inches higher the figure must be for its lowest axes and for the names of its rows."""
    missing = 0.0
    rows = max(1, len({round(ax.get_window_extent().y0) for ax in _list_plots(figure)}))
    for ax in _list_plots(figure):
        height = ax.get_window_extent().height / figure.dpi
        lowest = _LOWEST_INCHES
        if _has_names(ax.yaxis):
            lowest = _ROW_INCHES * max(_FEWEST_ROWS, len(_measure_ticks(ax.yaxis)[0]))
        missing = max(missing, (lowest - height) * rows)
    for axis in _list_axes_lines(figure):
        if _is_upright(axis) and _has_names(axis):
            boxes = _measure_ticks(axis)[1]
            overlap = max((low.y1 - high.y0 for high, low in pairwise(_sort_boxes(boxes))), default=0.0)
            missing = max(missing, overlap * len(boxes) / figure.dpi)
    # Less than a pixel is rounding, and would never be reached.
    return missing + 1 / figure.dpi if missing * figure.dpi > 1 else 0.0


def _list_plots(figure: Figure) -> Iterator[Axes]:
    """Yield the axes that hold curves, marks or maps, and no colour bars."""
    for ax in map(partial(cast, Axes), figure.findobj(Axes)):
        if ax.get_label() != "<colorbar>" and ax.axison:
            yield ax


def _list_axes_lines(figure: FigureBase) -> list[Axis]:
    return [axis for axis in figure.findobj(Axis) if axis.get_visible()]


def _list_breakable(figure: Figure) -> Iterator[tuple[Text, Axes | None, bool]]:
    """Yield titles and labels of axes, with their axes, and whether each stands upright."""
    for part in figure.findobj(FigureBase):
        # Figures have no public way to read their heading.
        if (heading := getattr(part, "_suptitle", None)) is not None:
            yield heading, None, False
    for ax in map(partial(cast, Axes), figure.findobj(Axes)):
        for title in (ax.title, getattr(ax, "_left_title", None), getattr(ax, "_right_title", None)):
            if title is not None and title.get_text().strip():
                yield title, ax, False
    for axis in _list_axes_lines(figure):
        if axis.label.get_text().strip():
            yield axis.label, axis.axes, _is_upright(axis)


def _measure_ticks(axis: Axis) -> tuple[list[Tick], list[Bbox]]:
    """Return the ticks in view that have a label, with the labels' boxes."""
    low, high = sorted(axis.get_view_interval())
    ticks = [
        tick
        for tick in axis.get_major_ticks()
        if tick.get_visible() and low <= tick.get_loc() <= high and tick.label1.get_text() and tick.label1.get_visible()
    ]
    return ticks, [tick.label1.get_window_extent() for tick in ticks]


def _overlap(boxes: list[Bbox], is_upright: bool) -> bool:
    if is_upright:
        return any(low.y1 > high.y0 for high, low in pairwise(_sort_boxes(boxes)))
    ordered = sorted(boxes, key=lambda box: box.x0)
    return any(left.x1 + 2 > right.x0 for left, right in pairwise(ordered))


def _sort_boxes(boxes: list[Bbox]) -> list[Bbox]:
    """Return boxes from the highest to the lowest."""
    return sorted(boxes, key=lambda box: -box.y0)


def _has_names(axis: Axis) -> bool:
    """Return whether the axis names rows, each of which must stay, and does not count."""
    return any(not _is_number(label.get_text()) for label in axis.get_ticklabels())


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-") or 0)
    except ValueError:
        return False
    return True
