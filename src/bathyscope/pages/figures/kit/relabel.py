"""Other words for what a drawn panel says: its curves, its labels and its title."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.surface import AxesSurface

_SIDES = ("x", "y")
_Writer = Callable[[str], object]
_LABEL = "bathyscope-label-"
"""Beginning of the own label of texts that are labels of a painted picture."""


def mark_label(text: Text, what: str) -> None:
    """Note that a text inside of axes is a label.

    Args:
        what: ``x`` or ``y`` for the label of an axis; ``entry`` of a legend.
    """
    text.set_label(f"{_LABEL}{what}")


def relabel(drawn_on: Figure | AxesSurface, words: Mapping[str, str]) -> None:
    """Replace labels of curves, of axes and of colour bars, and entries of legends.

    Args:
        words: label, or ``x`` or ``y`` for those of the axes → other words.

    Raises:
        OptionError: a label that the panel does not have, with those that it has.
    """
    if not words:
        return
    writers: dict[str, list[_Writer]] = {}
    for label, writer in _list_writers(drawn_on):
        writers.setdefault(label, []).append(writer)
    for label in words:
        if label not in writers:
            raise OptionError(
                f"labels={{{elided(repr(label), 40)}: …}}: the panel has no such label.{did_you_mean(label, writers)} "
                f"Allowed: {', '.join(map(repr, writers))}."
            )
    for label, text in words.items():
        for writer in writers[label]:
            writer(text)


def retitle(figure: Figure, title: str | None) -> None:
    """Replace the title of a figure of one panel; empty removes it, None leaves it."""
    if title is None:
        return
    plots = _list_plots(figure)
    heading: Any = getattr(figure, "_suptitle", None)
    if heading is not None:
        head_figure(figure, title)
    elif len(plots) == 1:
        plots[0].set_title(title, loc="left")
    elif title:
        head_figure(figure, title)


def _list_plots(drawn_on: Figure | AxesSurface) -> list[Axes]:
    if isinstance(drawn_on, AxesSurface):
        return drawn_on.plots
    return [ax for ax in drawn_on.axes if ax.get_label() != "<colorbar>"]


def _list_writers(drawn_on: Figure | AxesSurface) -> Iterator[tuple[str, _Writer]]:
    """Yield every label with what replaces it; a curve and its entry in a legend have the same."""
    plots = _list_plots(drawn_on)
    parts = drawn_on.parts() if isinstance(drawn_on, AxesSurface) else drawn_on.axes
    legends = [legend for part in parts if (legend := part.get_legend()) is not None]
    if isinstance(drawn_on, Figure):
        legends += drawn_on.legends
    for ax in plots:
        for artist in (*ax.lines, *ax.collections, *ax.patches):
            if not str(artist.get_label()).startswith("_"):
                yield str(artist.get_label()), artist.set_label
        for text in ax.texts:
            _, is_label, what = str(text.get_label()).partition(_LABEL)
            if is_label:
                yield text.get_text(), text.set_text
                if what in _SIDES:
                    yield what, text.set_text
    for legend in legends:
        for text in legend.get_texts():
            yield text.get_text(), text.set_text
    for ax in parts:
        for side, label in zip(_SIDES, (ax.xaxis.label, ax.yaxis.label)):
            if label.get_text():
                yield label.get_text(), label.set_text
                if ax in plots:
                    yield side, label.set_text
