"""What a profile and a comparison have in common: an axis of shares of tokens, curves on it, and depths above it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bathyscope.pages.head.canvas import Canvas, NumberFrame, text_width
from bathyscope.pages.head.layouts import ProfileLayout
from bathyscope.pages.head.numbers import Points

_SMALLEST: Final = 0.8
"""Size of letters, as a share of the usual one, below which words are left out."""
_FEW_WORDS: Final = "% of tokens with their final prediction"


@dataclass(frozen=True)
class ShareAxis:
    """Axes of the share of tokens along the depth.

    Args:
        top: where all tokens are.
        end: of the axis of depth, which begins at 0.
    """

    layout: ProfileLayout
    top: float
    end: float

    def across(self, place: float) -> float:
        """Return where a place along the depth is."""
        return self.layout.across(place, self.end)

    def up(self, share: float) -> float:
        """Return where a share is."""
        return self.top + self.layout.plot * (1 - share)

    def place(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return where points of the axes are on the canvas."""
        return [(self.across(place), self.up(share)) for place, share in points]

    def draw(self, canvas: Canvas, words: str) -> None:
        """Draw lines at none, half and all of the tokens, with their words in the room that there is."""
        layout = self.layout
        canvas.frame = NumberFrame(layout.left, self.top, layout.inner, layout.plot, self.end)
        for share in (0.0, 0.5, 1.0):
            canvas.line(layout.left, self.up(share), layout.width - layout.right, self.up(share), "grid")
            canvas.text(
                layout.left - 6,
                self.up(share) + 4,
                f"{100 * share:.0f}{'' if layout.own_line else ' %'}",
                layout.small,
                role="muted",
                anchor="end",
            )
        words = _FEW_WORDS if layout.own_line else words
        canvas.text(layout.left, self.top - 8, words, layout.note, role="muted", halo=True, label="y")


def draw_share(
    canvas: Canvas, axis: ShareAxis, share: Points, n_blocks: int, role: str, *, width: float, opacity: float
) -> list[tuple[float, float]]:
    """Draw a curve of shares over the band of its intervals; return its points.

    Args:
        n_blocks: of the model, whose depth is all of the axis.
        opacity: of the band.
    """
    band = share.band()
    if band:
        places = [place * axis.end / n_blocks for place, _, _ in band]
        upper = axis.place(zip(places, (high for _, _, high in band)))
        lower = axis.place(zip(places, (low for _, low, _ in band)))
        canvas.area([*upper, *reversed(lower)], role, opacity)
    points = axis.place(share.curve(n_blocks, axis.end))
    if points:
        canvas.curve(points, role, width)
    return points


@dataclass(frozen=True)
class MarkedDepth:
    """One depth of a picture, in a row of its own above the curves.

    Args:
        x, low, high: of the depth and of its interval on the canvas; NaN ends without one.
        label, remark: the depth in words, and its interval.
        shorter: both for a layout that has no room for them.
        size: of the label.
    """

    x: float
    low: float
    high: float
    role: str
    label: str
    remark: str
    shorter: tuple[str, str]
    size: float
    role_of_words: str = "ink"
    bold: bool = True

    def draw(self, canvas: Canvas, layout: ProfileLayout, y: float, deeper: float) -> None:
        """Draw a depth as a dot with its interval as a bar, and its label where there is room.

        Args:
            deeper: where the line of the next deeper one runs down.
        """
        x, role = self.x, self.role
        low, high = (x, x) if math.isnan(self.low) else (self.low, self.high)
        if high > low:
            canvas.rect(low, y - 3, high - low, 6, role=role, radius=3, opacity=0.4)
        canvas.circle(x, y, 5.5, role)
        label, remark, width, room, (left, right) = self._choose_words(layout, low, high)
        # Where even the shorter words have no room, letters are smaller.
        scale = min(1.0, room / width)
        width *= scale
        if layout.own_line:
            # Left of the next deeper mark's line where that is possible, and inside the picture in any case.
            place = min(x, deeper - 6 - width / 2, layout.width - 4 - width / 2)
            anchor, place, y = "middle", max(place, 4 + width / 2), y - 13
        # To the left where it fits, as the eye comes from there; else on the side with more room.
        elif width <= left or left >= layout.width - right:
            anchor, place, y = "end", left, y + 5
        else:
            anchor, place, y = "start", right, y + 5
        canvas.text(
            place,
            y,
            label,
            self.size * scale,
            role=self.role_of_words,
            anchor=anchor,
            bold=self.bold,
            halo=True,
            remark=remark,
            remark_size=layout.note * scale,
        )

    def _choose_words(
        self, layout: ProfileLayout, low: float, high: float
    ) -> tuple[str, str, float, float, tuple[float, float]]:
        """Return label and remark, their width, the room for them, and where a text left and right of the mark ends.

        Words are next to the interval where they have room there, else on it; on paper the shorter ones come first.
        """
        around_interval = min(low, self.x - 6) - 10, max(high, self.x + 6) + 10
        places = [around_interval] if layout.own_line else [around_interval, (self.x - 16, self.x + 16)]
        words = [(self.label, self.remark), self.shorter]
        choices = [(phrase, place) for phrase in words for place in places]
        if layout.few_words:
            choices = [(phrase, place) for place in places for phrase in words]
        for (label, remark), (left, right) in choices:
            # Fonts differ, and programs round the widths of their letters.
            room = layout.width - 8 if layout.own_line else 0.95 * max(left, layout.width - right)
            width = text_width(label, self.size, bold=self.bold)
            width += text_width(remark, layout.note) + 0.6 * layout.note
            # Next to a mark, letters may be a little smaller before words are left out.
            if width * (1.0 if layout.own_line else _SMALLEST) <= room:
                break
        return label, remark, width, room, (left, right)
