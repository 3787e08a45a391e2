"""Reading a figure back: its axes, curves, bands, texts and where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bathyscope.pages.figures.kind import FigureKind, Panel, arrange, fill
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.layout import MeasuredOnce
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run


def axes_titled(figure: Figure, title: str) -> Axes:
    """The one axes whose title, or whose figure's heading, begins so, however its lines are broken.

    A prompt in a line of its own follows a colon.
    """
    titles = {
        ax: [heading.replace("\nprompt ", ": prompt ").replace("\n", " ") for heading in _headings(ax)]
        for ax in figure.axes
    }
    (found,) = (ax for ax, own in titles.items() if any(heading.startswith(title) for heading in own))
    return found


def _headings(ax: Axes) -> list[str]:
    """The title of an axes, and the heading of its figure where it is the only one there."""
    plots = [other for other in ax.figure.axes if other.get_label() != "<colorbar>"]
    heading = getattr(ax.figure, "_suptitle", None)
    return [ax.get_title(loc="left"), *([heading.get_text()] if heading is not None and plots == [ax] else [])]


def curve(ax: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the line with this label."""
    (line,) = (line for line in ax.get_lines() if line.get_label() == label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def data_lines(ax: Axes) -> list[Line2D]:
    """Lines drawn from data, reference lines left out."""
    return [line for line in ax.get_lines() if len(np.atleast_1d(line.get_xdata())) > 0 and not _is_rule(ax, line)]


def bands(ax: Axes) -> list[PolyCollection]:
    """The filled areas."""
    return [artist for artist in ax.collections if isinstance(artist, PolyCollection)]


def visible_texts(figure: Figure) -> Iterator[tuple[str, Bbox]]:
    """Every text that is drawn, with its box in pixels; the figure has been laid out already."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    undrawn = {label for axis in figure.findobj(Axis) for label in _undrawn_labels(axis)}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text() and text not in undrawn:
            yield text.get_text(), text.get_window_extent(renderer)


def _undrawn_labels(axis: Axis) -> Iterator[Text]:
    """Labels of a hidden axis and of ticks outside the limits call themselves visible, but are not drawn."""
    low, high = sorted(axis.get_view_interval())
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if not (axis.get_visible() and low <= tick.get_loc() <= high):
            yield from (tick.label1, tick.label2)


def _is_rule(ax: Axes, line: Line2D) -> bool:
    return line.get_transform() == ax.get_yaxis_transform()


def drawn_from(kind: FigureKind, run: Run, options: FigureOptions | None = None, panels: Sequence[str] = ()) -> Figure:
    """What a figure of a run shows, in all its panels or in the named ones; where it lies is not decided."""
    chosen = _chosen(kind, run, options, panels)
    with style.applied():
        figure = Figure(layout=MeasuredOnce())
        for panel, cell in zip(chosen, figure.subfigures(len(chosen), 1, squeeze=False).flat):
            fill(cell, panel)
    return figure


def laid_out_from(
    kind: FigureKind, run: Run, options: FigureOptions | None = None, panels: Sequence[str] = ()
) -> Figure:
    """The figure under its heading, with everything in its place: most of what drawing costs."""
    return arrange(run.caption(), _chosen(kind, run, options, panels))


def _chosen(kind: FigureKind, run: Run, options: FigureOptions | None, panels: Sequence[str]) -> list[Panel]:
    offered = {panel.name: panel for panel in kind.panels(run, options)}
    return [offered[name] for name in panels or offered]


def caption_of(kind: FigureKind, run: Run, options: FigureOptions | None = None) -> str:
    """What stands below a figure."""
    return f"{kind.drawing(run, options).note} {run.caption()}"
