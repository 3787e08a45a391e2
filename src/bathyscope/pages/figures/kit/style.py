"""How every figure looks: colours, fonts, sizes, and the names under which a page may recolour them.

The data colours are Okabe and Ito's, which stay apart under the common forms of colour blindness, and no
figure relies on colour alone: series also differ in marker or line style.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final

import matplotlib as mpl
from matplotlib import font_manager

INK: Final = "#20242b"
MUTED: Final = "#5f6773"
GRID: Final = "#d9dde3"
PAPER: Final = "#fefefe"
VOID: Final = "#e9ebee"

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#a65a8a"

PART_NAMES: Final = {"attention": "attention", "mlp": "MLP", "block": "block"}

EFFECT_MAP: Final = "viridis"
SIGNED_MAP: Final = "RdBu_r"
CLIPPED: Final = "#e4007c"

# A page gives these names a light and a dark value; a figure on its own keeps the colours above.
CSS_NAMES: Final = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    VOID: "--void",
    BLUE: "--blue",
    VERMILION: "--vermilion",
    GREEN: "--green",
    PURPLE: "--purple",
}

# Inches. Narrow enough that the text stays readable when a panel is scaled to a telephone's width.
PANEL_SIZE: Final = (4.6, 3.2)
MAP_SIZE: Final = (5.0, 4.4)
PAIRED_UP_TO: Final = 6.0
"""Wider panels have a row of their own."""

MARKERS_UP_TO: Final = 40
"""Above this many points the markers would run into each other."""

MAIN_FONT: Final = "DejaVu Sans"
# Comes with matplotlib and lacks the scripts of East Asia, which tokens may be written in.
_OTHER_FONTS: Final = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
)

_RC: Final[Any] = {
    "font.size": 9,
    "text.color": INK,
    # Model and data set names may hold a dollar sign; no figure here uses mathematical markup.
    "text.parse_math": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    # where matplotlib looks for the place of a title it measures all labels of ticks once more, for the sake of powers
    # of ten above the axis, of which there are none here
    "axes.titley": 1.0,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-12, 12),
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.5,
    "hatch.color": MUTED,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.4,
    "figure.facecolor": PAPER,
    "figure.edgecolor": PAPER,
    "figure.titlesize": 10,
    "savefig.facecolor": "auto",
    "savefig.dpi": 160,
}


def applied() -> AbstractContextManager[None]:
    """A context in which new figures look like this; the caller's own matplotlib settings return after it."""
    return mpl.rc_context({**_RC, "font.family": families()})


@cache
def families() -> list[str]:
    """The fonts to draw with: the main one, then those of this machine that know other scripts."""
    installed = set(font_manager.get_font_names())
    return [MAIN_FONT, *(name for name in _OTHER_FONTS if name in installed)]
