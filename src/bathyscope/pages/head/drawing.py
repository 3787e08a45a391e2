"""The depth profile as SVG, in a wide layout and in one for narrow screens.

From top to bottom: a row for each depth, its mark with its interval; the share of tokens that are final, by boundary;
the papers' criteria as ticks; a tile for each block with the loss that leaving it out adds; what the colours mean.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from bathyscope.core.text import elided
from bathyscope.pages.head.canvas import Canvas, style, text_width, wrap
from bathyscope.pages.head.classes import NAMES
from bathyscope.pages.head.costs import draw_boundaries, draw_costs, draw_losses
from bathyscope.pages.head.depths import draw_curves, draw_grounds, draw_mark, list_rows
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout
from bathyscope.pages.head.numbers import Profile
from bathyscope.pages.head.sentences import basis, describe, explain_picture, headline


@cache
def profile_style() -> str:
    """Return the style sheet of a profile in a page: the colours of its roles, and which of two layouts is shown."""
    sheet = (files("bathyscope.pages.head") / "profile.css").read_text(encoding="utf-8")
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
        draw_grounds(canvas, layout, profile, across, top + 26)
    # Lines of the marks run down to the axis, behind everything else.
    for line, (mark, role, _) in zip(lines, rows):
        main = role != "muted"
        canvas.line(
            across(mark.value), line - 10, across(mark.value), foot, role, 2 if main else 1.2, "" if main else "3 3"
        )
    if has_curve:
        draw_curves(canvas, layout, profile, across, top + 26)
    else:
        canvas.line(layout.left, foot, layout.width - layout.right, foot, "grid")
    deeper = layout.width
    for line, (mark, role, words) in zip(lines, rows):
        draw_mark(canvas, layout, mark, role, words, across, line - 10, deeper)
        deeper = across(mark.value)
    for depth in profile.criteria.values():
        canvas.line(across(depth), foot + 1, across(depth), foot + 9, "muted", 1.5)
    bottom = foot + 14
    if profile.losses:
        draw_losses(canvas, layout, profile, across, foot + 24)
        bottom += 18
    if profile.costs is not None:
        bottom = draw_costs(canvas, layout, profile, profile.costs, across, bottom)
    else:
        draw_boundaries(canvas, layout, profile.n_blocks, across, bottom + 10)
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
        for level, name in enumerate(NAMES):
            canvas.rect(x, y - 10, 12, 12, role=f"cost{level}", radius=3)
            canvas.text(x + 17, y, name, size, role="muted")
            x += 17 + text_width(name, size) + (18 if layout is WIDE else 9)
    else:
        y += 14
    for line in _fill_lines(explain_picture(profile), layout.inner, size):
        y += 18
        canvas.text(layout.left, y, line, size, role="muted")
    return y + 10


def _fill_lines(sentences: list[str], width: float, size: float) -> list[str]:
    """Put as many whole sentences on a line as fit, and break only those that are longer than a line."""
    lines: list[str] = []
    for sentence in sentences:
        joined = f"{lines[-1]}; {sentence}" if lines else sentence
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines += wrap(sentence, width, size)
    return lines
