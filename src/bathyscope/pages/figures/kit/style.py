"""The style of every figure: colours, fonts, sizes, and the names by which a page recolours them.

The data colours are those of Okabe and Ito, which remain distinct under the common forms of colour blindness. No
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
# Not pure white: a page replaces this colour as text, so no other white of a picture may be equal to it.
PAPER: Final = "#fefefe"
VOID: Final = "#e9ebee"

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#a65a8a"

PART_NAMES: Final = {"attention": "attention", "mlp": "MLP", "block": "block"}

# Viridis is ordered by lightness, in grey print too. RdBu has white at 0, and red where something is added.
EFFECT_MAP: Final = "viridis"
SIGNED_MAP: Final = "RdBu_r"
CLIPPED: Final = "#e4007c"

# A page gives these names a light and a dark value; a separate figure has the colours above.
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

# In inches, narrow enough that text is readable when a panel is scaled to the width of a telephone.
PANEL_SIZE: Final = (4.6, 3.2)
MAP_SIZE: Final = (5.0, 4.4)
PAIRED_UP_TO: Final = 6.0
"""Wider panels have their own row."""

WIDEST: Final = 10.5
"""Width of the widest panel, in inches: on paper it fits across a sheet."""
TITLE_POINTS: Final = 9.5
LINE_INCHES: Final = 0.16
"""Height of one line of a title."""
BROKEN: Final[dict[str, Any]] = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (4, 3))}
"""Look of lines that compare: thresholds, chance, the identity."""

MARKERS_UP_TO: Final = 40
"""Above this many points the markers would run into each other."""

MAIN_FONT: Final = "DejaVu Sans"
# DejaVu comes with matplotlib, but lacks the scripts of East Asia, in which tokens may be written.
_OTHER_FONTS: Final = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
)

_SIZES: Final = ("titlesize", "labelsize", "fontsize")
"""Ends of the names of settings that are sizes of letters."""

_RC: Final[Any] = {
    "font.size": 9,
    "text.color": INK,
    # Model and data set names may hold a dollar sign; no figure here uses mathematical markup.
    "text.parse_math": False,
    "axes.titlesize": TITLE_POINTS,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    # Without a fixed height matplotlib measures all labels of ticks once more, to keep titles clear of a power of ten
    # above the axis. No axis here has one.
    "axes.titley": 1.0,
    # An offset or a power of ten above an axis is easily overlooked, and its own text costs a measurement.
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


def applied(changed_stay: bool = False) -> AbstractContextManager[None]:
    """Return a context in which new figures have this style; the caller's settings return after it.

    Args:
        changed_stay: settings that the caller has changed from matplotlib's own stay in place of the style's.
    """
    settings = {**_RC, "font.family": families()}
    if changed_stay:
        changed = {name for name in settings if mpl.rcParams[name] != mpl.rcParamsDefault[name]}
        # Sizes follow that of the font, so whoever chose it has chosen all.
        sizes = {name for name in settings if name.endswith(_SIZES)} if "font.size" in changed else set()
        settings = {name: value for name, value in settings.items() if name not in changed | sizes}
    return mpl.rc_context(settings)


@cache
def families() -> list[str]:
    """Return the fonts to draw with: the main one, then installed ones for other scripts."""
    installed = set(font_manager.get_font_names())
    return [MAIN_FONT, *(name for name in _OTHER_FONTS if name in installed)]
