"""The depth profile, in a wide layout and in one for narrow screens: the picture of pages, files and figures alike.

From top to bottom: a row for each depth, its mark with its interval; the share of tokens that are final, by boundary;
the papers' criteria as ticks; a tile for each block with the loss that leaving it out adds; what the colours mean.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from bathyscope.core.text import elided
from bathyscope.pages.head.canvas import Canvas, text_width, wrap
from bathyscope.pages.head.classes import NAMES
from bathyscope.pages.head.costs import draw_boundaries, draw_costs, draw_losses
from bathyscope.pages.head.depths import draw_curves, draw_grounds, list_rows
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout
from bathyscope.pages.head.numbers import Profile
from bathyscope.pages.head.sentences import basis, describe, explain_picture, headline
from bathyscope.pages.head.svg import print_svg, style


@cache
def profile_style() -> str:
    """Return the style sheet of a profile in a page: the colours of its roles, and which of two layouts is shown."""
    sheet = (files("bathyscope.pages.head") / "profile.css").read_text(encoding="utf-8")
    return f"{style(alone=False)}\n{sheet}"


def wide(profile: Profile) -> str:
    """Return the picture for screens of 640 pixels and more, as part of a page."""
    return print_svg(draw_profile(profile, WIDE), describe(profile), name=WIDE.class_name)


def narrow(profile: Profile) -> str:
    """Return the picture for narrow screens, as part of a page."""
    return print_svg(draw_profile(profile, NARROW), describe(profile), name=NARROW.class_name)


def alone(profile: Profile) -> str:
    """Return the picture as a file of its own, with its headline, on light and dark ground."""
    return print_svg(draw_profile(profile, WIDE, titled=True), describe(profile), alone=True)


def draw_profile(profile: Profile, layout: ProfileLayout, *, titled: bool = False) -> Canvas:
    """Draw a profile, for whoever prints it.

    Args:
        titled: with its headline.
    """
    canvas = Canvas(layout.width)
    y = _draw_title(canvas, layout, profile) if titled else 6.0
    if profile.empty:
        canvas.text(layout.left, y + 20, "Nothing to draw: survey with lens, skip and drop.", layout.note, role="muted")
        canvas.height = y + 36
        return canvas
    foot = _draw_upper_half(canvas, layout, profile, y)
    for depth in profile.criteria.values():
        x = layout.across(depth, profile.n_blocks)
        canvas.line(x, foot + 1, x, foot + 9, "muted", 1.5)
    bottom = foot + 14
    if profile.losses:
        draw_losses(canvas, layout, profile, foot + 24)
        bottom += 18
    if profile.costs is not None:
        bottom = draw_costs(canvas, layout, profile.n_blocks, profile.costs, bottom)
    else:
        draw_boundaries(canvas, layout, profile.n_blocks, bottom + 10)
        bottom += 22
    canvas.height = _draw_legend(canvas, layout, profile, bottom)
    return canvas


def _draw_upper_half(canvas: Canvas, layout: ProfileLayout, profile: Profile, y: float) -> float:
    """Draw the depths and the curve below them; return where the curve's axes end."""
    rows = list_rows(profile, layout)
    lines = [y := y + (layout.row if row.bold else layout.control_row) for row in rows]
    top = y
    has_curve = profile.share is not None or any(control.curves for control in profile.controls)
    foot = top + (26 + layout.plot if has_curve else 10)
    if has_curve:
        draw_grounds(canvas, layout, profile, top + 26)
    # Lines of the marks run down to the axis, behind everything else.
    for line, row in zip(lines, rows):
        canvas.line(row.x, line - 10, row.x, foot, row.role, 2 if row.bold else 1.2, "" if row.bold else "3 3")
    if has_curve:
        draw_curves(canvas, layout, profile, top + 26)
    else:
        canvas.line(layout.left, foot, layout.width - layout.right, foot, "grid")
    deeper = layout.width
    for line, row in zip(lines, rows):
        row.draw(canvas, layout, line - 10, deeper)
        deeper = row.x
    return foot


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
        words = "loss added when the block is left out" + (", nats" if layout.own_line else "")
        y += 18
        canvas.text(layout.left, y, words, size, role="muted", label="entry")
        x = layout.width if layout.own_line else layout.left + text_width(words, size) + 16
        gap = 9 if layout.own_line else 18
        for level, name in enumerate(NAMES):
            width = 17 + text_width(name, size)
            if x + width > layout.width:
                x, y = layout.left, y + 18
            canvas.rect(x, y - 10, 12, 12, role=f"cost{level}", radius=3)
            canvas.text(x + 17, y, name, size, role="muted", label="entry")
            x += width + gap
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
