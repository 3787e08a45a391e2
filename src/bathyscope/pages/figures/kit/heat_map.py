"""A heat map on one pair of axes: values, what stands on its axes, its colours, what it tells who cannot see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, NullFormatter

from bathyscope.core.arrays import FloatArray
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import log_ticks, whole_numbers
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.texts import drawn_text

_TOKEN_POINTS: Final = 7
_MARK_POINTS: Final = 4.5
_MARKED_PAD: Final = 9
_TOKEN_INCHES: Final = 0.145
_FRAME_INCHES: Final = 1.9
_LETTER_INCHES: Final = 0.075
_AROUND_INCHES: Final = 0.6
_TITLE_INCHES: Final = 0.35
_SHORTEST, _TALLEST = 1.7, 4.0
_ROW_INCHES: Final = 0.08
LABELLED_TOKENS: Final = 72
"""Above this many tokens not every one is labelled: the labels would run into each other."""

SIGNED: Final = "signed"
"""Name of what has the colours of a signed map in a picture, whose white middle a page in the dark turns over."""


@dataclass(frozen=True)
class Side:
    """What stands along one side of a map: ``short`` is what one place is called in sentences, ``pieces`` are the texts
    of places that are tokens, and ``marked`` ones are pointed out."""

    label: str
    short: str
    pieces: tuple[str, ...] | None = None
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeatMap:
    """A map and how to read it.

    Args:
        values: (rows, columns), NaN where the map stays blank.
        quantity: what the colours are, unit included; ``short`` in a word or two.
        hatched: rows that should have values and have none.
        key: maps with the same key show the same thing in different runs; the title where empty.
    """

    values: FloatArray
    title: str
    rows: Side
    columns: Side
    quantity: str
    short: str
    colours: Colours
    hatched: tuple[int, ...] = ()
    key: str = ""

    @property
    def seen(self) -> FloatArray:
        """The visible values in one row."""
        return self.values[np.isfinite(self.values)]


def tokens_size(
    maps: Sequence[HeatMap], frame: float = _FRAME_INCHES, narrowest: float = style.PANEL_SIZE[0]
) -> tuple[float, float]:
    """Width and height in inches of maps under each other at which every labelled token and its text fit.

    Args:
        frame: width of what stands beside the maps.
        narrowest: width that no panel goes below.
    """
    pieces = maps[0].columns.pieces or ()
    width = frame + _TOKEN_INCHES * min(len(pieces), LABELLED_TOKENS)
    height = min(max(_ROW_INCHES * len(maps[0].values), _SHORTEST), _TALLEST) + _TITLE_INCHES
    letters = max((len(piece) for piece in pieces), default=0)
    return max(width, narrowest), len(maps) * height + _LETTER_INCHES * letters + _AROUND_INCHES


def draw_heat(ax: Axes, shown: HeatMap, *, labels: bool = True, ticks: int = 9) -> AxesImage:
    """Fill empty axes, with labels of their own or none, and about so many ``ticks`` at most on an axis of indices; the
    colour bar is drawn apart."""
    rows, columns = shown.values.shape
    image = ax.imshow(
        np.ma.masked_invalid(shown.colours.drawable(shown.values)),
        cmap=shown.colours.colormap,
        norm=shown.colours.norm,
        aspect="auto",
        interpolation="none",
    )
    if shown.colours.kind == "signed":
        image.set_gid(SIGNED)
    for row in shown.hatched:
        ax.axhspan(row - 0.5, row + 0.5, hatch="////", facecolor="none", edgecolor=style.MUTED, linewidth=0)
    ax.set_facecolor(style.VOID)
    ax.grid(visible=False)
    # triangles stand between the map and its title
    ax.set_title(shown.title, pad=_MARKED_PAD if shown.columns.marked else None)
    ax.yaxis.set_major_locator(whole_numbers(ticks))
    if shown.columns.pieces is None:
        ax.xaxis.set_major_locator(whole_numbers(ticks))
    else:
        places = range(0, columns, -(-columns // LABELLED_TOKENS))
        texts = [drawn_text(shown.columns.pieces[place]) for place in places]
        ax.set_xticks(places, texts, rotation=90, fontsize=_TOKEN_POINTS)
    _mark(ax, shown.columns.marked)
    if labels:
        ax.set(xlabel=shown.columns.label, ylabel=shown.rows.label)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    return image


def draw_colour_bar(
    figure: FigureBase,
    image: AxesImage,
    shown: Sequence[HeatMap],
    beside: list[Axes],
    location: Literal["bottom", "right"] = "bottom",
) -> None:
    """One colour bar for maps that share their colours, with points at its ends where values lie beyond."""
    colours = shown[0].colours
    below, above = colours.beyond(np.concatenate([one.seen for one in shown]))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}
    bar = figure.colorbar(
        image,
        ax=beside,
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
    bar.set_label(shown[0].quantity, fontsize=8)
    axis = bar.ax.xaxis if location == "bottom" else bar.ax.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_formatter(NullFormatter())


def _name_bar(bar: Colorbar, image: AxesImage, location: str) -> None:
    """Gives the colours of a bar, and its ends, the name of their maps, which a page in the dark would turn over alone.

    A bar's own colours become a picture that has no name, and a named one takes their place.
    """
    low, high = image.get_clim()
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
    for drawn in (named, *bar.ax.patches):
        drawn.set_gid(SIGNED)


def describe_largest(shown: HeatMap) -> str:
    """``largest 0.3 where skipped block is 3 and affected block is 5``, and the smallest where signs differ."""
    said = f"median {np.median(shown.seen):.3g}, largest {_at(shown, np.nanargmax(shown.values))}"
    if shown.colours.kind == "signed":
        said += f", smallest {_at(shown, np.nanargmin(shown.values))}"
    return said


def _at(shown: HeatMap, place: Any) -> str:
    row, column = np.unravel_index(place, shown.values.shape)
    pieces = shown.columns.pieces
    token = "" if pieces is None else f" ({pieces[column]})"
    value = shown.values[row, column]
    return f"{value:.3g} at {shown.rows.short} {row}, {shown.columns.short} {column}{token}"


def _mark(ax: Axes, places: Sequence[int]) -> None:
    """Triangles above columns, outside the map, so that they cover no value."""
    if places:
        ax.plot(
            list(places),
            [1.0] * len(places),
            linestyle="none",
            marker=7,  # a triangle that stands on its point
            markersize=_MARK_POINTS,
            color=style.VERMILION,
            transform=ax.get_xaxis_transform(),
            clip_on=False,
            label="marked",
        )
