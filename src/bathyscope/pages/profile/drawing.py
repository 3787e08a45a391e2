"""The depth profile as SVG, in a wide layout and in one for narrow screens.

From top to bottom: a row for each depth, its mark with its interval; the share of tokens that are final, by boundary;
the papers' criteria as ticks; a tile for each block with the loss that leaving it out adds; what the colours mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from bathyscope.core.text import elided
from bathyscope.pages.profile.canvas import Canvas, style, text_width
from bathyscope.pages.profile.classes import CARRIES, COLOURS, LETTERS, NAMES, class_of, write_cost
from bathyscope.pages.profile.numbers import CRITERIA, Mark, Points, Profile
from bathyscope.pages.profile.sentences import MATTERS, basis, describe, headline, interval_text, mark_label

TILES_UP_TO: Final = 32
"""Above this many blocks, added loss is drawn as bars."""
_ROLE: Final = {"readable": "blue", "own": "green"}
_ARTICLE: Final = "the average "
"""Beginning of a label that is left out where there is no room."""
_BAR_LOW: Final = 0.03
"""Loss in nats at the foot of a bar, which is logarithmic."""


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
        own_line: whether a depth's label stands above its mark and not next to it.
        class_name: of the element in a page.
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

    @property
    def inner(self) -> float:
        """Width of the axis."""
        return self.width - self.left - self.right


WIDE: Final = ProfileLayout(1000, 64, 36, 16, 13.5, 12.5, 30, 24, 150, 34, TILES_UP_TO, False, "bp bp-wide")
NARROW: Final = ProfileLayout(400, 34, 14, 14, 12.5, 12, 44, 38, 130, 34, 12, True, "bp bp-narrow")


@cache
def profile_style() -> str:
    """Return the style sheet of a profile in a page: the colours of its roles, and which of two layouts is shown."""
    sheet = (files("bathyscope.pages.profile") / "profile.css").read_text(encoding="utf-8")
    return f"{style(alone=False)}\n{sheet}"


def wide(profile: Profile) -> str:
    """Return the picture for screens of 640 pixels and more, as part of a page."""
    return _draw(profile, WIDE)


def narrow(profile: Profile) -> str:
    """Return the picture for narrow screens, as part of a page."""
    return _draw(profile, NARROW)


def alone(profile: Profile) -> str:
    """Return the picture as a file of its own, with its headline, on light and dark ground."""
    return _draw(profile, WIDE, titled=True)


def _draw(profile: Profile, layout: ProfileLayout, *, titled: bool = False) -> str:
    canvas = Canvas(layout.width)
    y = _draw_title(canvas, layout, profile) if titled else 6.0
    if profile.empty:
        canvas.text(layout.left, y + 20, "Nothing to draw: survey with lens, skip and drop.", layout.note, role="muted")
        return canvas.svg(y + 36, describe(profile), alone=titled, name=layout.class_name)

    def across(place: float, n_blocks: int | None = None) -> float:
        return layout.left + layout.inner * place / (n_blocks or profile.n_blocks)

    rows = list_rows(profile)
    lines = [y := y + (layout.row if role != "muted" else layout.control_row) for _, role, _ in rows]
    top = y
    has_curve = profile.share is not None or any(control.curves for control in profile.controls)
    foot = top + (26 + layout.plot if has_curve else 10)
    if has_curve:
        _draw_grounds(canvas, layout, profile, across, top + 26)
    # Lines of the marks run down to the axis, behind everything else.
    for line, (mark, role, _) in zip(lines, rows):
        main = role != "muted"
        canvas.line(
            across(mark.value), line - 10, across(mark.value), foot, role, 2 if main else 1.2, "" if main else "3 3"
        )
    if has_curve:
        _draw_curves(canvas, layout, profile, across, top + 26)
    else:
        canvas.line(layout.left, foot, layout.width - layout.right, foot, "grid")
    deeper = layout.width
    for line, (mark, role, words) in zip(lines, rows):
        _draw_mark(canvas, layout, mark, role, words, across, line - 10, deeper)
        deeper = across(mark.value)
    for depth in profile.criteria.values():
        canvas.line(across(depth), foot + 1, across(depth), foot + 9, "muted", 1.5)
    bottom = foot + 14
    if profile.costs is not None:
        bottom = _draw_costs(canvas, layout, profile, profile.costs, across, bottom)
    else:
        _draw_boundaries(canvas, layout, profile.n_blocks, across, bottom + 10)
        bottom += 22
    bottom = _draw_legend(canvas, layout, profile, bottom)
    return canvas.svg(bottom, describe(profile), alone=titled, name=layout.class_name)


def _draw_title(canvas: Canvas, layout: ProfileLayout, profile: Profile) -> float:
    y = 30.0
    canvas.text(20, y, f"{elided(profile.model, 48)} · {elided(profile.dataset, 48)}", 14, role="muted", bold=True)
    for line in wrap(headline(profile), layout.width - 40, 23, bold=True):
        y += 31
        canvas.text(20, y, line, 23, bold=True)
    for line in wrap(basis(profile), layout.width - 40, 14):
        y += 21
        canvas.text(20, y, line, 14, role="muted")
    return y + 16


def list_rows(profile: Profile) -> list[tuple[Mark, str, tuple[str, str]]]:
    """Return the depths from the deepest to the shallowest, so that no mark's line runs through a label to its left."""
    rows = [(mark, _ROLE[mark.name], mark_label(mark)) for mark in profile.marks]
    names = {mark.name for mark in profile.marks}
    for control in profile.controls:
        for mark in control.marks:
            if mark.name in names:
                words = {"readable": "token final after", "own": "output until"}[mark.name]
                label = f"{control.label}: {words} {mark.value:.1f}"
                rows.append((mark, "muted", (label, interval_text(mark.low, mark.high))))
    return sorted(rows, key=lambda row: -row[0].value)


def _draw_grounds(
    canvas: Canvas, layout: ProfileLayout, profile: Profile, across: Callable[[float], float], top: float
) -> None:
    """Tint the blocks until the prediction is final, and those that still change the output after it."""
    begin = across(0)
    for mark in sorted(profile.marks, key=lambda mark: mark.value):
        end = across(mark.value)
        canvas.rect(begin, top, end - begin, layout.plot, role=_ROLE[mark.name], opacity=0.07)
        begin = end


def _draw_mark(
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
    width = text_width(label, size, bold=bold) + text_width(interval, layout.note) + 0.6 * layout.note
    if layout.own_line and width > layout.width - 8:
        width -= text_width(_ARTICLE, size, bold=bold)
        label = label.removeprefix(_ARTICLE)
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


def _draw_curves(
    canvas: Canvas, layout: ProfileLayout, profile: Profile, across: Callable[..., float], top: float
) -> None:
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
    words = "share of tokens whose most likely next token is already the final one"
    if layout is not WIDE:
        words = "% of tokens with their final prediction"
    canvas.text(layout.left, top - 8, words, layout.note, role="muted", halo=True)
    for control in profile.controls:
        for curve, n_blocks in zip(control.curves, control.n_blocks):
            # A control of another number of blocks is drawn over the share of its own depth.
            points = [(across(place, n_blocks), up(share)) for place, share in _present(curve)]
            if points:
                canvas.curve(points, "muted", 1.3, 0.75)
    if profile.share is None:
        return
    band = [
        (place, low, high)
        for place, low, high in zip(profile.share.places, profile.share.low, profile.share.high)
        if not math.isnan(low)
    ]
    if len(band) > 1:
        edge = [(across(place), up(high)) for place, _, high in band]
        canvas.area([*edge, *((across(place), up(low)) for place, low, _ in reversed(band))], "ink", 0.14)
    points = [(across(place), up(share)) for place, share in _present(profile.share)]
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


def _draw_costs(
    canvas: Canvas, layout: ProfileLayout, profile: Profile, costs: Points, across: Callable[[float], float], y: float
) -> float:
    """Draw tiles or bars and the numbers of the blocks; return where what follows begins."""
    width = layout.inner / profile.n_blocks
    by_block = dict(zip(costs.places, costs.mean))
    if profile.n_blocks <= layout.tiles_up_to:
        _draw_tiles(canvas, layout, profile.n_blocks, by_block, across, y)
        bottom = y + layout.tile
    else:
        bottom = _draw_bars(canvas, layout, profile.n_blocks, by_block, across, y)
    every = next(step for step in (1, 2, 5, 10, 20, 50, 1000) if step * width >= (24 if step > 1 else 18))
    for block in range(0, profile.n_blocks, every):
        canvas.text(across(block + 0.5), bottom + 16, str(block), layout.small, role="muted", anchor="middle")
    if layout is WIDE:
        canvas.text(layout.left - 8, bottom + 16, "block", layout.small, role="muted", anchor="end")
    return bottom + 22


def _draw_tiles(
    canvas: Canvas,
    layout: ProfileLayout,
    n_blocks: int,
    by_block: dict[int, float],
    across: Callable[[float], float],
    y: float,
) -> None:
    width = layout.inner / n_blocks
    gap = 2.5 if width > 30 else 1.2
    short = width < 52
    if layout is WIDE:
        canvas.text(layout.left - 8, y + layout.tile / 2 + 4, "nats", layout.small, role="muted", anchor="end")
    for block in range(n_blocks):
        loss = by_block.get(block, math.nan)
        x = across(block) + gap
        if math.isnan(loss):
            canvas.rect(x, y, width - 2 * gap, layout.tile, role="grid", radius=4, opacity=0.5)
            canvas.text(across(block + 0.5), y + layout.tile / 2 + 5, "–", 12, role="muted", anchor="middle")
            continue
        level = class_of(loss)
        canvas.rect(x, y, width - 2 * gap, layout.tile, fill=COLOURS[level], radius=4)
        text = write_cost(loss, short=short)
        size = min(14.0, (width - 2 * gap - 1) / text_width(text, 1, bold=level >= CARRIES))
        canvas.text(
            across(block + 0.5),
            y + layout.tile / 2 + size * 0.36,
            text,
            size,
            anchor="middle",
            bold=level >= CARRIES,
            fill=LETTERS[level],
        )


def _draw_bars(
    canvas: Canvas,
    layout: ProfileLayout,
    n_blocks: int,
    by_block: dict[int, float],
    across: Callable[[float], float],
    y: float,
) -> float:
    """Draw bars on a logarithmic scale that begins at 0.03 nats; a loss below it is a stub."""
    present = [loss for loss in by_block.values() if not math.isnan(loss)]
    highest = max(1.0, max(present, default=1.0))
    height, width = 2 * layout.tile, layout.inner / n_blocks

    def tall(loss: float) -> float:
        return 3 + (height - 3) * max(0.0, math.log(max(loss, _BAR_LOW) / _BAR_LOW) / math.log(highest / _BAR_LOW))

    ticks = [0.1, 1.0, 10.0, 100.0]
    for tick in ticks:
        if tick <= highest:
            level = y + height - tall(tick)
            canvas.line(layout.left, level, layout.width - layout.right, level, "grid")
            canvas.text(layout.left - 6, level + 4, f"{tick:g}", layout.small, role="muted", anchor="end")
    gap = min(1.0, 0.12 * width)
    for block in range(n_blocks):
        loss = by_block.get(block, math.nan)
        if math.isnan(loss):
            continue
        size = tall(loss)
        canvas.rect(across(block) + gap, y + height - size, width - 2 * gap, size, fill=COLOURS[class_of(loss)])
    return y + height


def _draw_boundaries(
    canvas: Canvas, layout: ProfileLayout, n_blocks: int, across: Callable[[float], float], y: float
) -> None:
    """Write the axis of a picture without tiles: blocks done."""
    every = next(step for step in (1, 2, 5, 10, 20, 50, 1000) if step * layout.inner / n_blocks >= 30)
    for boundary in range(0, n_blocks + 1, every):
        canvas.text(across(boundary), y, str(boundary), layout.small, role="muted", anchor="middle")
    canvas.text(layout.left, y + 17, "blocks done", layout.small, role="muted")


def _draw_legend(canvas: Canvas, layout: ProfileLayout, profile: Profile, y: float) -> float:
    """Explain colours and ticks below the picture; return its lower edge."""
    size = layout.small
    if profile.costs is not None:
        words = "loss added when the block is left out" + (", nats" if layout is not WIDE else "")
        y += 18
        canvas.text(layout.left, y, words, size, role="muted")
        x = layout.left + text_width(words, size) + 16
        if layout is not WIDE:
            x, y = layout.left, y + 18
        for colour, name in zip(COLOURS, NAMES):
            canvas.rect(x, y - 10, 12, 12, fill=colour, radius=3)
            canvas.text(x + 17, y, name, size, role="muted")
            x += 17 + text_width(name, size) + (18 if layout is WIDE else 9)
    else:
        y += 14
    if profile.criteria:
        ordered = sorted(profile.criteria.items(), key=lambda item: item[1])
        listed = ", ".join(f"{CRITERIA[name]} {depth:.0f}" for name, depth in ordered)
        for line in wrap(
            f"ticks: the papers' criteria (where refinement begins) read {listed} of {profile.n_blocks}",
            layout.inner,
            size,
        ):
            y += 18
            canvas.text(layout.left, y, line, size, role="muted")
    kinds = [f"{len(control.curves)} {control.label}" for control in profile.controls if control.curves]
    if kinds:
        y += 18
        canvas.text(layout.left, y, f"grey: {', '.join(kinds)}, the same prompts", size, role="muted")
    return y + 10


def wrap(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Break a text into lines of an estimated width."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size, bold=bold) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line] if line else lines


def _present(points: Points) -> list[tuple[int, float]]:
    return [(place, mean) for place, mean in zip(points.places, points.mean) if not math.isnan(mean)]
