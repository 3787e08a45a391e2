"""The logit lens of one prompt in words: each cell holds what a boundary predicts, coloured by its probability."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase

from bathyscope.core.arrays import FloatArray
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.texts import drawn_text, fit_line

_MAP: Final = "Blues"
_DARK_FROM: Final = 0.55
"""Probability from which letters on a cell are light."""
_CELL_INCHES: Final = (0.52, 0.19)
_AROUND_INCHES: Final = (1.1, 1.5)
_MOST_POINTS: Final = 7.0
_LEAST_POINTS: Final = 3.5
_POINTS_PER_LINE: Final = 0.72
"""Height of letters as a share of their row's."""
_LETTERS_THAT_FIT: Final = 7
_WIDTH_OF_LETTER: Final = 0.62
_FILLED: Final = 0.94
_POINTS_PER_INCH: Final = 72
_TILT_BELOW: Final = 0.42
"""Inches of a column below which the text's own words stand upright."""
ROWS_UP_TO: Final = 33


@dataclass(frozen=True)
class WordGrid:
    """What a lens predicts at each boundary and token of one prompt.

    Args:
        words: [boundary][token], the likeliest token.
        probability: (boundary, token), its probability.
        boundaries: (boundary,), indices.
        tokens: [token], the text's own words, and ``first`` the index of the first one.
        places: [token], the names of the places that it is of, mostly none.
        final: [token], what the model predicts in the end.
    """

    words: tuple[tuple[str, ...], ...]
    probability: FloatArray
    boundaries: tuple[int, ...]
    tokens: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    first: int
    final: tuple[str, ...]
    title: str

    def cut(self, blocks: range) -> "WordGrid":
        """Return the boundaries around some blocks."""
        rows = [row for row, boundary in enumerate(self.boundaries) if blocks.start <= boundary <= blocks.stop]
        return replace(
            self,
            words=tuple(self.words[row] for row in rows),
            probability=self.probability[rows],
            boundaries=tuple(self.boundaries[row] for row in rows),
        )


def make_word_panel(name: str, grid: WordGrid) -> Panel:
    """Make the panel; boundaries run upwards, as a model is read."""
    rows, columns = grid.probability.shape
    size = (
        max(style.PANEL_SIZE[0], _AROUND_INCHES[0] + columns * _CELL_INCHES[0]),
        _AROUND_INCHES[1] + rows * _CELL_INCHES[1],
    )
    predicted = "; ".join(
        f"after {' '.join((token, *names))}: {' '.join(dict.fromkeys(row[column] for row in grid.words))}"
        for column, (token, names) in enumerate(zip(grid.tokens, grid.places))
    )
    alt = f"Table of {rows} boundaries by {columns} tokens. {grid.title}, from the first boundary on: {predicted}."
    return Panel(
        name, partial(_draw_words, grid=grid), alt, size, cut=lambda blocks: make_word_panel(name, grid.cut(blocks))
    )


def _draw_words(figure: FigureBase, grid: WordGrid) -> None:
    ax = figure.subplots()
    rows, columns = grid.probability.shape
    image = ax.imshow(
        grid.probability,
        cmap=_MAP,
        norm=Normalize(0, 1),
        aspect="auto",
        interpolation="none",
        extent=(grid.first - 0.5, grid.first + columns - 0.5, -0.5, rows - 0.5),
        origin="lower",
    )
    ax.grid(visible=False)
    ax.tick_params(length=0)
    place: Any = figure
    inches = [float(side) / place.dpi for side in place.bbox.size]
    around = [0.0, 0.0] if _is_given(figure, ax) else _AROUND_INCHES
    cell = [max(0.1, inches[0] - around[0]) / columns, max(0.1, inches[1] - around[1]) / rows]
    points = float(
        np.clip(
            min(
                cell[1] * _POINTS_PER_INCH * _POINTS_PER_LINE,
                cell[0] * _POINTS_PER_INCH / (_LETTERS_THAT_FIT * _WIDTH_OF_LETTER),
            ),
            _LEAST_POINTS,
            _MOST_POINTS,
        )
    )
    _name_sides(ax, grid, cell, points)
    for row, words in enumerate(grid.words):
        for column, word in enumerate(words):
            ax.text(
                grid.first + column,
                row,
                fit_line(drawn_text(word), cell[0] * _FILLED, points),
                ha="center",
                va="center",
                fontsize=points,
                fontweight="bold" if word == grid.final[column] else "normal",
                color=style.PAPER if grid.probability[row, column] >= _DARK_FROM else style.INK,
                parse_math=False,
                clip_on=True,
            )
    ax.set(xlabel="token of the text", ylabel="boundary (index)")
    ax.set_title(grid.title)
    bar = figure.colorbar(image, ax=ax, location="right", aspect=25, pad=0.02)
    bar.set_label("probability (bold: the final prediction)", fontsize=8)


def _is_given(figure: FigureBase, ax: Axes) -> bool:
    """Return whether the axes are somebody's, whose box is that of the cells."""
    return getattr(figure, "axes", None) is ax


def _name_sides(ax: Axes, grid: WordGrid, cell: Sequence[float], points: float) -> None:
    rows, columns = grid.probability.shape
    smallest = min(points, float(mpl.rcParams["font.size"]))
    is_narrow = cell[0] < _TILT_BELOW
    room = np.inf if is_narrow else cell[0] * _FILLED
    words = [
        # names of places stand below their word, or behind it where words stand upright
        (" " if is_narrow else "\n").join(
            fit_line(drawn_text(text), room, smallest, "normal") for text in (word, *names)
        )
        for word, names in zip(grid.tokens, grid.places)
    ]
    ax.set_xticks(
        range(grid.first, grid.first + columns), words, rotation=90 if is_narrow else 0, fontsize=max(smallest, 5.0)
    )
    for label, names in zip(ax.get_xticklabels(), grid.places):
        label.set_fontweight("bold" if names else "normal")
    every = max(1, -(-rows // ROWS_UP_TO))
    named = [row for row in range(rows) if (rows - 1 - row) % every == 0]
    ax.set_yticks(named, [str(grid.boundaries[row]) for row in named], fontsize=max(smallest, 5.0))
