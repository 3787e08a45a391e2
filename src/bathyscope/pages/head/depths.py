"""The upper half of a profile: a mark for each depth, and the share of tokens that are final, by boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from bathyscope.pages.head.canvas import Canvas, text_width
from bathyscope.pages.head.layouts import TILES_UP_TO, WIDE, ProfileLayout
from bathyscope.pages.head.numbers import Mark, Profile
from bathyscope.pages.head.sentences import MATTERS, SHORT_LABELS, interval_text, mark_label

_ROLE: Final = {"half": "blue", "readable": "blue", "own": "green"}
_SHORTER: Final = {
    "half of the tokens": "half",
    "the average ": "",
    "of the effect": "of effect",
}
"""Words of a label that are left out where there is no room."""


def list_rows(profile: Profile) -> list[tuple[Mark, str, tuple[str, str]]]:
    """Return the depths from the deepest to the shallowest, so that no mark's line runs through a label to its left."""
    rows = [(mark, _ROLE[mark.name], mark_label(mark)) for mark in profile.marks]
    names = {mark.name for mark in profile.marks}
    for control in profile.controls:
        for mark in control.marks:
            if mark.name in names:
                label = f"{control.label}: {SHORT_LABELS[mark.name]} {mark.value:.1f}"
                rows.append((mark, "muted", (label, interval_text(mark.low, mark.high))))
    return sorted(rows, key=lambda row: -row[0].value)


def draw_grounds(
    canvas: Canvas, layout: ProfileLayout, profile: Profile, across: Callable[[float], float], top: float
) -> None:
    """Tint the blocks until the prediction is final, and those that still change the output after it."""
    begin = across(0)
    for mark in sorted(profile.marks, key=lambda mark: mark.value):
        end = across(mark.value)
        canvas.rect(begin, top, end - begin, layout.plot, role=_ROLE[mark.name], opacity=0.07)
        begin = end


def draw_mark(
    canvas: Canvas,
    layout: ProfileLayout,
    mark: Mark,
    role: str,
    words: tuple[str, str],
    across: Callable[[float], float],
    y: float,
    deeper: float,
) -> None:
    """Draw a depth as a dot with its interval as a bar, and its label where there is room.

    Args:
        deeper: where the line of the next deeper mark runs down.
    """
    x, (label, interval) = across(mark.value), words
    ends = (x, x) if math.isnan(mark.low) else (across(mark.low), across(mark.high))
    if ends[1] > ends[0]:
        canvas.rect(ends[0], y - 3, ends[1] - ends[0], 6, role=role, radius=3, opacity=0.4)
    canvas.circle(x, y, 5.5, role)
    bold = role != "muted"
    size = layout.label if bold else layout.note
    remark = text_width(interval, layout.note) + 0.6 * layout.note
    if layout.own_line and text_width(label, size, bold=bold) + remark > layout.width - 8:
        for phrase, shorter in _SHORTER.items():
            label = label.replace(phrase, shorter)
    width = text_width(label, size, bold=bold) + remark
    left, right = min(ends[0], x - 6) - 10, max(ends[1], x + 6) + 10
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
        size,
        role="ink" if bold else "muted",
        anchor=anchor,
        bold=bold,
        halo=True,
        remark=interval,
        remark_size=layout.note,
    )


def draw_curves(
    canvas: Canvas, layout: ProfileLayout, profile: Profile, across: Callable[..., float], top: float
) -> None:
    """Draw the share of tokens that are final, by boundary, over the curves of the controls."""

    def up(share: float) -> float:
        return top + layout.plot * (1 - share)

    for share, text in ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")):
        canvas.line(layout.left, up(share), layout.width - layout.right, up(share), "grid")
        canvas.text(
            layout.left - 6,
            up(share) + 4,
            text if layout is WIDE else text[:-2],
            layout.small,
            role="muted",
            anchor="end",
        )
    words = "share of tokens that have, and keep, their final prediction"
    if profile.head is not None and profile.head.is_mean:
        words = "share of tokens whose most likely next token equals the final one"
    if layout is not WIDE:
        words = "% of tokens with their final prediction"
    canvas.text(layout.left, top - 8, words, layout.note, role="muted", halo=True)
    for control in profile.controls:
        for curve, n_blocks in zip(control.curves, control.n_blocks):
            points = [(across(place), up(share)) for place, share in curve.curve(n_blocks, profile.n_blocks)]
            if points:
                canvas.curve(points, "muted", 1.3, 0.75)
    if profile.share is None:
        return
    band = profile.share.band()
    if band:
        edge = [(across(place), up(high)) for place, _, high in band]
        canvas.area([*edge, *((across(place), up(low)) for place, low, _ in reversed(band))], "ink", 0.14)
    curve_of_run = profile.share.curve(profile.n_blocks, profile.n_blocks)
    points = [(across(place), up(share)) for place, share in curve_of_run]
    canvas.curve(points, "ink", 2.5)
    if profile.n_blocks <= TILES_UP_TO:
        for x, y in points:
            canvas.circle(x, y, 3 if layout is WIDE else 2.2, "ink")
    _label_last(canvas, layout, profile, across, up)


def _label_last(
    canvas: Canvas,
    layout: ProfileLayout,
    profile: Profile,
    across: Callable[..., float],
    up: Callable[[float], float],
) -> None:
    """Write the share before the last block, where that block still changes some."""
    assert profile.share is not None
    place = profile.n_blocks - 1
    share = profile.share.at(place)
    if math.isnan(share) or place == 0 or round(1 - share, 2) < MATTERS:
        return
    text = f"{100 * share:.0f} % before the last block"
    high = profile.share.high[profile.share.places.index(place)]
    # Left of it the curve is lower, so the room above is free; not at the very top, where the axis has its name.
    level = up(share if math.isnan(high) else high) - 9
    if level > up(1.0) + 12:
        canvas.text(across(place) - 2, level, text, layout.note, anchor="end", halo=True)
