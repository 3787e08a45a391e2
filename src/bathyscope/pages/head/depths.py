"""The upper half of a profile: a mark for each depth, and the share of tokens that are final, by boundary."""

from __future__ import annotations

import math
from typing import Final

from bathyscope.pages.head.canvas import Canvas
from bathyscope.pages.head.layouts import TILES_UP_TO, ProfileLayout
from bathyscope.pages.head.numbers import Mark, Profile
from bathyscope.pages.head.sentences import MATTERS, SHORT_LABELS, interval_text, mark_label
from bathyscope.pages.head.shares import MarkedDepth, ShareAxis, draw_share

_ROLE: Final = {"half": "blue", "readable": "blue", "own": "green"}
_SHORTER: Final = {
    "half of the tokens": "half",
    "the average ": "",
    "of the effect": "of effect",
}
"""Words of a label that are left out where there is no room."""


def list_rows(profile: Profile, layout: ProfileLayout) -> list[MarkedDepth]:
    """Return the depths from the deepest to the shallowest, so that no mark's line runs through a label to its left."""
    rows = [(mark, _ROLE[mark.name], mark_label(mark)) for mark in profile.marks]
    names = {mark.name for mark in profile.marks}
    for control in profile.controls:
        for mark in control.marks:
            if mark.name in names:
                label = f"{control.label}: {SHORT_LABELS[mark.name]} {mark.value:.1f}"
                rows.append((mark, "muted", (label, interval_text(mark.low, mark.high))))
    rows.sort(key=lambda row: -row[0].value)
    return [_make_row(profile, layout, mark, role, words) for mark, role, words in rows]


def _make_row(profile: Profile, layout: ProfileLayout, mark: Mark, role: str, words: tuple[str, str]) -> MarkedDepth:
    (label, interval), shorter, is_control = words, words[0], role == "muted"
    for phrase, replacement in _SHORTER.items():
        shorter = shorter.replace(phrase, replacement)
    x, low, high = (layout.across(place, profile.n_blocks) for place in (mark.value, mark.low, mark.high))
    return MarkedDepth(
        x,
        low,
        high,
        role=role,
        label=label,
        remark=interval,
        shorter=(shorter, interval),
        size=layout.note if is_control else layout.label,
        role_of_words="muted" if is_control else "ink",
        bold=not is_control,
    )


def draw_grounds(canvas: Canvas, layout: ProfileLayout, profile: Profile, top: float) -> None:
    """Tint the blocks until the prediction is final, and those that still change the output after it."""
    begin = layout.left
    for mark in sorted(profile.marks, key=lambda mark: mark.value):
        end = layout.across(mark.value, profile.n_blocks)
        canvas.rect(begin, top, end - begin, layout.plot, role=_ROLE[mark.name], opacity=0.07)
        begin = end


def draw_curves(canvas: Canvas, layout: ProfileLayout, profile: Profile, top: float) -> None:
    """Draw the share of tokens that are final, by boundary, over the curves of the controls."""
    words = "share of tokens that have, and keep, their final prediction"
    if profile.head is not None and profile.head.is_mean:
        words = "share of tokens whose most likely next token equals the final one"
    axis = ShareAxis(layout, top, profile.n_blocks)
    axis.draw(canvas, words)
    for control in profile.controls:
        for curve, n_blocks in zip(control.curves, control.n_blocks):
            points = axis.place(curve.curve(n_blocks, profile.n_blocks))
            if points:
                canvas.curve(points, "muted", 1.3, 0.75)
    if profile.share is None:
        return
    points = draw_share(canvas, axis, profile.share, profile.n_blocks, "ink", width=2.5, opacity=0.14)
    if profile.n_blocks <= TILES_UP_TO:
        for x, y in points:
            canvas.circle(x, y, 2.2 if layout.own_line else 3, "ink")
    _label_last(canvas, axis, profile)


def _label_last(canvas: Canvas, axis: ShareAxis, profile: Profile) -> None:
    """Write the share before the last block, where that block still changes some."""
    assert profile.share is not None
    place = profile.n_blocks - 1
    share = profile.share.at(place)
    if math.isnan(share) or place == 0 or round(1 - share, 2) < MATTERS:
        return
    text = f"{100 * share:.0f} % before the last block"
    high = profile.share.high[profile.share.places.index(place)]
    # Left of it the curve is lower, so the room above is free; not at the very top, where the axis has its name.
    level = axis.up(share if math.isnan(high) else high) - 9
    if level > axis.up(1.0) + 12:
        canvas.text(axis.across(place) - 2, level, text, axis.layout.note, anchor="end", halo=True)
