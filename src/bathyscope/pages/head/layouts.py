"""Sizes of a profile's two layouts, for wide and for narrow screens, and of both on paper."""

from dataclasses import dataclass, replace
from typing import Final

TILES_UP_TO: Final = 32
"""Above this many blocks, added loss is drawn as bars."""


@dataclass(frozen=True)
class ProfileLayout:
    """Sizes of one layout, in units of its view box.

    Args:
        width: of the view box.
        left, right: margins of the axis.
        label: font size of the depths; ``note`` of what is around them; ``small`` of axes.
        row: height of a depth's row; ``control_row`` of a control's.
        plot: height of the curve's axes.
        tile: height of the tiles or bars.
        tiles_up_to: blocks above which added loss is drawn as bars.
        own_line: whether a depth's label is above its mark and not next to it, and words are few: a narrow layout.
        class_name: of the element in a page.
        few_words: whether a label rather has fewer words than covers its interval.
    """

    width: float
    left: float
    right: float
    label: float
    note: float
    small: float
    row: float
    control_row: float
    plot: float
    tile: float
    tiles_up_to: int
    own_line: bool
    class_name: str
    few_words: bool = False

    def across(self, place: float, end: float) -> float:
        """Return where a place of an axis from 0 to ``end`` is."""
        return self.left + self.inner * place / end

    @property
    def inner(self) -> float:
        """Width of the axis."""
        return self.width - self.left - self.right


WIDE: Final = ProfileLayout(1000, 64, 36, 16, 13.5, 12.5, 30, 24, 150, 34, TILES_UP_TO, False, "bp bp-wide")
NARROW: Final = ProfileLayout(400, 34, 14, 14, 12.5, 12, 44, 38, 130, 34, 12, True, "bp bp-narrow")
_NARROW_INCHES: Final = 5.0
_POINTS: Final = {True: 0.585, False: 0.62}
"""Points of a unit on paper, of a narrow layout and of a wide one: no letters are smaller than seven."""


def paper_layout(inches: float) -> ProfileLayout:
    """Return the layout of a picture of this width on paper, with letters of one size whatever the width."""
    layout = NARROW if inches < _NARROW_INCHES else replace(WIDE, label=14, note=13, few_words=True)
    return replace(layout, width=inches * 72 / _POINTS[layout.own_line])
