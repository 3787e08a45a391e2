"""A heat map on one pair of axes: values, what is on its axes, its colours, what it tells who cannot see it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, NullFormatter

from bathyscope.core.arrays import FloatArray
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, describe_value
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import log_ticks, whole_numbers
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.texts import drawn_text, measure_text
from bathyscope.statistics.inputs import as_numbers

_TOKEN_POINTS: Final = 7
_MARK_POINTS: Final = 4.5
_BESIDE: Final = 1.025
"""Place of marks at the right of a map, as a share of its width."""
_TOKEN_INCHES: Final = 0.14
_FRAME_INCHES: Final = 0.7
_AROUND_INCHES: Final = 1.5
_COLUMN_INCHES: Final = 0.14
_NARROWEST, _WIDEST = 2.4, 6.0
_SHORTEST: Final = 1.0
_STAR_POINTS: Final = 6.0
_STARS_ACROSS: Final = 14
"""Blocks up to which stars have their full size."""
_WORD_LETTERS: Final = 24
LABELLED_TOKENS: Final = 72
"""With more tokens only some are labelled, because labels would run into each other."""

SIGNED: Final = "signed"
"""Name of elements with the colours of a signed map; a dark page inverts them, because their middle is white."""


@dataclass(frozen=True)
class Side:
    """One side of a map.

    Args:
        label: of the axis.
        short: what one place is called in sentences.
        pieces: the texts of places that are tokens.
        marked: places with a triangle.
        start: index of the first place, of a map of some blocks.

    Raises:
        OptionError: pieces that are no list of texts.

    Example:
        >>> from bathyscope.extend.figures import Side
        >>> Side("block (0-based index)", "block").find_span(range(2, 5))
        slice(2, 5, None)
    """

    label: str
    short: str
    pieces: tuple[str, ...] | None = None
    marked: tuple[int, ...] = ()
    start: int = 0

    def __post_init__(self) -> None:
        if self.pieces is not None and (
            isinstance(self.pieces, str) or not all(isinstance(piece, str) for piece in self.pieces)
        ):
            raise OptionError(f"Side {self.label!r}: pieces={describe_value(self.pieces)} are no list of texts.")

    def find_span(self, blocks: range) -> slice | None:
        """Return the places of these blocks, or of the boundaries around them; None for a side without a depth."""
        kind = self.short.rpartition(" ")[2]
        if self.pieces is not None or kind not in ("block", "boundary"):
            return None
        return slice(blocks.start - self.start, blocks.stop + (kind == "boundary") - self.start)


@dataclass(frozen=True)
class HeatMap:
    """A map and how to read it.

    Args:
        values: (rows, columns), NaN where the map is blank.
        quantity: what colours mean, with the unit; ``short`` in a word or two.
        hatched: rows that should have values and have none.
        starred: cells (row, column) with a star, whose meaning ``quantity`` says.
        key: maps with the same key show the same thing in different runs; the title where empty.

    Raises:
        OptionError: values that are no map of numbers, sides and colours that are none, pieces that are not one for
            each row or column, and hatched rows and starred cells that the map does not have.

    Example:
        >>> from bathyscope.extend.figures import Colours, HeatMap, Side
        >>> values = np.array([[0.0, 0.5], [1.0, np.nan]])
        >>> sides = Side("token", "token"), Side("boundary (index)", "boundary")
        >>> heat = HeatMap(values, "one prompt", *sides, "change (share)", "change", Colours.spanning(values, "linear"))
        >>> heat.seen.tolist()
        [0.0, 0.5, 1.0]
    """

    values: FloatArray
    title: str
    rows: Side
    columns: Side
    quantity: str
    short: str
    colours: Colours
    hatched: tuple[int, ...] = ()
    starred: tuple[tuple[int, int], ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        where = f"HeatMap {self.title!r}: "
        # The class is frozen, and a list of lists is a map too.
        object.__setattr__(self, "values", as_numbers(self.values, f"{where}values", "an array of them"))
        if self.values.ndim != 2:
            raise OptionError(f"{where}values of shape {list(self.values.shape)} are no map; give [rows, columns].")
        self._check_sides(where)
        if not isinstance(self.colours, Colours):
            raise OptionError(
                f"{where}colours={describe_value(self.colours)} are no Colours; give "
                "Colours.spanning(values, 'linear')."
            )
        self._check_marks(where)

    def _check_sides(self, where: str) -> None:
        """Refuse sides that are none, and texts of places that are not one for each."""
        for name, side, places in zip(("rows", "columns"), (self.rows, self.columns), self.values.shape):
            if not isinstance(side, Side):
                raise OptionError(f"{where}{name}={describe_value(side)} is no Side; give Side(label, short).")
            if side.pieces is not None and len(side.pieces) != places:
                raise OptionError(f"{where}{len(side.pieces)} pieces for {places} {name}; give one for each.")

    def _check_marks(self, where: str) -> None:
        """Refuse marks at places that the map does not have."""
        rows, columns = (
            range(side.start, side.start + places) for side, places in zip((self.rows, self.columns), self.values.shape)
        )
        if any(row not in rows for row in self.hatched):
            raise OptionError(f"{where}hatched={self.hatched} are no rows of a map of {len(rows)}.")
        if any(row not in rows or column not in columns for row, column in self.starred):
            raise OptionError(
                f"{where}starred={self.starred} are no cells (row, column) of a map of {len(rows)} × {len(columns)}."
            )

    @property
    def seen(self) -> FloatArray:
        """The visible values in one row."""
        return self.values[np.isfinite(self.values)]

    def cut(self, blocks: range) -> Self | None:
        """Return the map of some blocks, in colours of their own; None where no side is a depth, or nothing is left."""
        rows, columns = self.rows.find_span(blocks), self.columns.find_span(blocks)
        if rows is None and columns is None:
            return None
        values = self.values[rows or slice(None), columns or slice(None)]
        if not np.isfinite(values).any():
            return None
        row_side = self.rows if rows is None else replace(self.rows, start=self.rows.start + rows.start)
        column_side = (
            self.columns if columns is None else replace(self.columns, start=self.columns.start + columns.start)
        )
        last_row, last_column = row_side.start + values.shape[0], column_side.start + values.shape[1]
        return replace(
            self,
            values=values,
            rows=row_side,
            columns=column_side,
            colours=Colours.spanning(values, self.colours.kind, self.colours.clips),
            hatched=tuple(row for row in self.hatched if row_side.start <= row < last_row),
            starred=tuple(
                (row, column)
                for row, column in self.starred
                if row_side.start <= row < last_row and column_side.start <= column < last_column
            ),
        )


def measure_token_map(heat: HeatMap, narrowest: float = style.PANEL_SIZE[0]) -> tuple[float, float]:
    """Return width and height in inches at which a map fits every labelled token with its words on one line.

    Args:
        narrowest: width that no panel goes below.
    """
    rows, columns = heat.values.shape
    words = max((measure_text(word, _TOKEN_POINTS, "normal") for word in _label_rows(heat)[1]), default=0.0)
    width = words + _FRAME_INCHES + min(max(_COLUMN_INCHES * columns, _NARROWEST), _WIDEST)
    height = max(_TOKEN_INCHES * min(rows, LABELLED_TOKENS), _SHORTEST)
    return max(width, narrowest), height + _AROUND_INCHES


def _label_rows(heat: HeatMap) -> tuple[range, list[str]]:
    """Return the rows with a label and their words: every n-th, with n rounded up so that no more than fit."""
    pieces = heat.rows.pieces or ()
    places = range(0, len(pieces), max(1, -(-len(pieces) // LABELLED_TOKENS)))
    return places, [elided(drawn_text(pieces[place]), _WORD_LETTERS) for place in places]


def draw_heat(ax: Axes, heat: HeatMap, *, labels: bool = True, ticks: int = 9) -> AxesImage:
    """Draw a map into empty axes, without its colour bar.

    Args:
        labels: also label both axes.
        ticks: at most about this many on an axis of indices.
    """
    rows, columns = heat.values.shape
    top, left = heat.rows.start - 0.5, heat.columns.start - 0.5
    image = ax.imshow(
        # Cells keep sharp edges when the page scales the picture: no interpolation between blocks.
        np.ma.masked_invalid(heat.colours.drawable(heat.values)),
        cmap=heat.colours.colormap,
        norm=heat.colours.norm,
        aspect="auto",
        interpolation="none",
        extent=(left, left + columns, top + rows, top),
    )
    if heat.colours.kind == "signed":
        image.set_gid(SIGNED)
    for row in heat.hatched:
        ax.axhspan(row - 0.5, row + 0.5, hatch="////", facecolor="none", edgecolor=style.MUTED, linewidth=0)
    ax.set_facecolor(style.VOID)
    ax.grid(visible=False)
    # Triangles need room between the map and its title.
    ax.set_title(heat.title)
    ax.xaxis.set_major_locator(whole_numbers(ticks))
    if heat.rows.pieces is None:
        ax.yaxis.set_major_locator(whole_numbers(ticks))
    else:
        ax.set_yticks(*_label_rows(heat), fontsize=_TOKEN_POINTS)
    _draw_stars(ax, heat)
    _mark_rows(ax, heat.rows.marked)
    if labels:
        ax.set(xlabel=heat.columns.label, ylabel=heat.rows.label)
    # Marks above the map would otherwise widen the limits, and leave an empty margin around it.
    ax.set(xlim=(left, left + columns), ylim=(top + rows, top))
    return image


def draw_colour_bar(
    figure: FigureBase,
    image: AxesImage,
    maps: Sequence[HeatMap],
    axes: list[Axes],
    location: Literal["bottom", "right"] = "bottom",
) -> None:
    """Draw one colour bar for maps that share their colours, pointed where values lie beyond its ends."""
    colours = maps[0].colours
    below, above = colours.beyond(np.concatenate([heat.seen for heat in maps]))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}
    bar = figure.colorbar(
        image,
        ax=axes,
        location=location,
        aspect=45 if location == "bottom" else 25,
        extend=extend[bool(below), bool(above)],
        extendfrac=0.03,
        pad=0.02,
    )
    if colours.kind == "signed":
        _name_bar(bar, image, location)
    if colours.kind == "log":
        bar.locator = log_ticks(*image.get_clim())
    bar.set_label(maps[0].quantity, fontsize=8)
    axis = bar.ax.xaxis if location == "bottom" else bar.ax.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_formatter(NullFormatter())


def _name_bar(bar: Colorbar, image: AxesImage, location: str) -> None:
    """Give the colour bar the name of its maps, so that a dark page inverts both.

    matplotlib writes a bar's own colours as an image without a name. A named image replaces them.
    """
    low, high = image.get_clim()
    # Adding an image changes the limits of the axes, so these are restored afterwards.
    ramp, limits = np.linspace(low, high, 256), (bar.ax.get_xlim(), bar.ax.get_ylim())
    across = location == "bottom"
    named = AxesImage(bar.ax, cmap=image.cmap, origin="lower", interpolation="nearest")
    named.norm = image.norm
    named.set_extent((low, high, 0, 1) if across else (0, 1, low, high))
    named.set_data(ramp[None, :] if across else ramp[:, None])
    if bar.solids is not None:
        bar.solids.set_visible(False)
    bar.ax.add_image(named)
    bar.ax.set(xlim=limits[0], ylim=limits[1])
    for artist in (named, *bar.ax.patches):
        artist.set_gid(SIGNED)


def describe_largest(heat: HeatMap) -> str:
    """Write median, largest and, where signs differ, smallest value with their places."""
    text = f"median {np.median(heat.seen):.3g}, largest {_describe_cell(heat, np.nanargmax(heat.values))}"
    if heat.colours.kind == "signed":
        text += f", smallest {_describe_cell(heat, np.nanargmin(heat.values))}"
    return text


def _describe_cell(heat: HeatMap, place: Any) -> str:
    row, column = np.unravel_index(place, heat.values.shape)
    pieces = heat.rows.pieces
    token = "" if pieces is None else f" ({pieces[row]})"
    value = heat.values[row, column]
    places = row + heat.rows.start, column + heat.columns.start
    return f"{value:.3g} at {heat.rows.short} {places[0]}{token}, {heat.columns.short} {places[1]}"


def _draw_stars(ax: Axes, heat: HeatMap) -> None:
    if heat.starred:
        rows, columns = zip(*heat.starred)
        size = _STAR_POINTS * min(1.0, _STARS_ACROSS / len(heat.values))
        (stars,) = ax.plot(columns, rows, "*", markersize=size, color=style.PAPER, label="starred")
        stars.set(markeredgecolor=style.INK, markeredgewidth=0.08 * size)


def _mark_rows(ax: Axes, places: Sequence[int]) -> None:
    """Place triangles to the right of rows, outside the map, where they cover no value."""
    if places:
        ax.plot(
            [_BESIDE] * len(places),
            list(places),
            linestyle="none",
            marker="<",
            markersize=_MARK_POINTS,
            color=style.VERMILION,
            transform=ax.get_yaxis_transform(),
            clip_on=False,
            label="marked",
        )
