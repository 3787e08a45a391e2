"""A comparison as its page begins: the sentence, all runs' curves over the share of their depth, and what differs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from bathyscope.analysis.depths.questions import DIFFERENCE
from bathyscope.analysis.depths.sentences import (
    decimals,
    difference_text,
    differs,
    head_row,
    percents,
    rows_of_comparison,
    sentence,
    support,
    surviving,
)
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import elided
from bathyscope.errors import OptionError
from bathyscope.pages.comparison.next_step import comparison_facts
from bathyscope.pages.head.canvas import Canvas, text_width
from bathyscope.pages.head.numbers import Points, read_profile
from bathyscope.pages.text.environment import environment
from bathyscope.runs.depth_table import estimator_name

if TYPE_CHECKING:
    from bathyscope.analysis.depths import Comparison
    from bathyscope.analysis.depths.side import ComparedPrompts

ROLES: Final = ("blue", "vermilion", "green", "purple")
"""Colours of the first runs; further ones are grey."""
_HEADS: Final = {"half": "half of the tokens kept", "readable": "average token kept"}
_LETTERS: Final = 34
"""Letters of a run's name on the picture."""


@dataclass(frozen=True)
class RunCurve:
    """One run of a comparison.

    Args:
        name: as the comparison calls it.
        n_blocks: L.
        share: of tokens that are final, by boundary; None without it.
        ratio, low, high: the head's depth as a share of L with its interval, of all prompts of the side.
    """

    name: str
    n_blocks: int
    share: Points | None
    ratio: float
    low: float
    high: float


def run_curves(comparison: Comparison) -> list[RunCurve]:
    """Return the runs of a comparison in its order."""
    return [_read_side(comparison, side) for side in comparison.sides]


def comparison_html(comparison: Comparison, *, level: int = 2, name: str = "") -> Markup:
    """Return the head of a page about several runs.

    Args:
        level: of its heading.
        name: what is compared, for readers of the page's structure.
    """
    macros: Any = environment().get_template("parts.html.j2").module
    curves = run_curves(comparison)
    number = _leading(comparison)
    digits = _choose_decimals(comparison)
    wide, narrow = (draw_comparison(curves, width, digits) for width in (1000.0, 400.0))
    others = [
        f"{sentence(comparison, place)}."
        for place in range(comparison.data.sizes["comparison"])
        if place != number and comparison.quantity == DIFFERENCE
    ]
    section = {
        "headline": f"{sentence(comparison, number)}.",
        "basis": " ".join(text for text in (support(comparison, number), state_blocks(comparison, number)) if text),
        "others": others,
        "wide": Markup(wide),
        "narrow": Markup(narrow),
        "headings": ["estimator", *_ratio_names(comparison, number), "difference"],
        "rows": _difference_rows(comparison, number),
        "silent": _name_silent(comparison, number),
        "facts": comparison_facts(comparison, number),
    }
    return Markup(macros.compared(section, level, name))


def state_blocks(comparison: Comparison, number: int = 0) -> str:
    """Return the headline's two depths in blocks where models have different numbers of them, else an empty text.

    The deeper of two models may be the earlier one by its share of blocks and the later one by their number.
    """
    row = head_row(comparison, number)
    if row is None or not differs(row) or comparison.quantity != DIFFERENCE:
        return ""
    data = comparison.data.isel(comparison=number)
    n_blocks = {side.name: side.n_blocks for side in comparison.sides}
    reference, other = (n_blocks[str(data[role].item())] for role in ("reference", "other"))
    if reference == other:
        return ""
    depths = (row.other * other, row.reference * reference)
    return f"In blocks: {depths[0]:.1f} of {other} against {depths[1]:.1f} of {reference}."


def draw_comparison(curves: list[RunCurve], width: float, digits: int = 0) -> str:
    """Draw the share of tokens that are final over the share of each run's depth, with its depth as a mark.

    Args:
        digits: decimals of the depths in per cent.
    """
    narrow = width < 600
    left, right, note, small = (34.0, 14.0, 12.5, 12.0) if narrow else (64.0, 36.0, 13.5, 12.5)
    plot = 150.0 if narrow else 190.0
    canvas = Canvas(width)

    def across(share: float) -> float:
        return left + (width - left - right) * share

    marks = [(curve, _role(number)) for number, curve in enumerate(curves) if not math.isnan(curve.ratio)]
    marks.sort(key=lambda item: -item[0].ratio)
    row = 40.0 if narrow else 26.0
    y = 4.0 + row * len(marks)
    top, foot = y + 24, y + 24 + plot

    def up(share: float) -> float:
        return top + plot * (1 - share)

    for number, (curve, role) in enumerate(marks):
        line = 4 + row * (number + 1) - 9
        canvas.line(across(curve.ratio), line, across(curve.ratio), foot, role, 1.6, "4 3")
    for share in (0.0, 0.5, 1.0):
        canvas.line(left, up(share), width - right, up(share), "grid")
        label = f"{100 * share:.0f}" + ("" if narrow else " %")
        canvas.text(left - 6, up(share) + 4, label, small, role="muted", anchor="end")
    words = "% of tokens with their final prediction" if narrow else "share of tokens with their final prediction"
    canvas.text(left, top - 8, words, note, role="muted", halo=True)
    for number, curve in enumerate(curves):
        _draw_curve(canvas, curve, _role(number), across, up)
    for number, (curve, role) in enumerate(marks):
        deeper = across(marks[number - 1][0].ratio) if number else width
        _draw_ratio(canvas, curve, role, across, 4 + row * (number + 1) - 9, digits, deeper, narrow=narrow)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "middle" if 0 < share < 1 or not narrow else "start" if share == 0 else "end"
        canvas.text(across(share), foot + 18, f"{100 * share:.0f} %", small, role="muted", anchor=anchor)
    canvas.text(across(0.5), foot + 36, "share of its blocks done", small, role="muted", anchor="middle")
    name = "bp bp-narrow" if narrow else "bp bp-wide"
    return canvas.svg(foot + 44, _describe(curves), name=name)


def _draw_curve(
    canvas: Canvas, curve: RunCurve, role: str, across: Callable[[float], float], up: Callable[[float], float]
) -> None:
    if curve.share is None:
        return
    rows = [
        (place / curve.n_blocks, mean, low, high)
        for place, mean, low, high in zip(curve.share.places, curve.share.mean, curve.share.low, curve.share.high)
        if not math.isnan(mean)
    ]
    band = [row for row in rows if not math.isnan(row[2])]
    if len(band) > 1:
        upper = [(across(x), up(high)) for x, _, _, high in band]
        lower = [(across(x), up(low)) for x, _, low, _ in reversed(band)]
        canvas.area([*upper, *lower], role, 0.15)
    if rows:
        canvas.curve([(across(x), up(mean)) for x, mean, _, _ in rows], role, 2.3)


def _draw_ratio(
    canvas: Canvas,
    curve: RunCurve,
    role: str,
    across: Callable[[float], float],
    y: float,
    digits: int,
    deeper: float,
    *,
    narrow: bool,
) -> None:
    """Draw a run's depth with its interval, its name next to it or, on narrow screens, above it.

    Args:
        deeper: where the line of the next deeper run goes down.
    """
    x = across(curve.ratio)
    ends = (x, x) if math.isnan(curve.low) else (across(curve.low), across(curve.high))
    canvas.rect(ends[0], y - 3, ends[1] - ends[0], 6, role=role, radius=3, opacity=0.4)
    canvas.circle(x, y, 5.5, role)
    label = f"{elided(curve.name, _LETTERS)} {100 * curve.ratio:.{digits}f} %"
    ends_digits = min(digits, 1)
    ends_in_percent = Estimate(curve.ratio, 100 * curve.low, 100 * curve.high)
    remark = ends_in_percent.interval(f".{ends_digits}f") if ends_in_percent.has_interval else ""
    size, note = (13.0, 12.0) if narrow else (15.0, 13.0)
    width = text_width(label, size, bold=True) + text_width(remark, note) + 0.6 * note
    if narrow and width > canvas.width - 8:
        remark = ""
        label = f"{elided(curve.name, 26)} {100 * curve.ratio:.{digits}f} %"
        width = text_width(label, size, bold=True)
    left, right = min(ends[0], x - 6) - 10, max(ends[1], x + 6) + 10
    if narrow:
        # Left of the next deeper run's line where that is possible, and inside the picture in any case.
        place = max(4 + width / 2, min(x, deeper - 6 - width / 2, canvas.width - 4 - width / 2))
        anchor, y = "middle", y - 12
    elif width <= left or left >= canvas.width - right:
        place, anchor, y = left, "end", y + 5
    else:
        place, anchor, y = right, "start", y + 5
    canvas.text(place, y, label, size, role=role, anchor=anchor, bold=True, halo=True, remark=remark, remark_size=note)


def _read_side(comparison: Comparison, side: ComparedPrompts) -> RunCurve:
    run = side.run
    if len(side.prompts) < len(run.prompts):
        # Results of all prompts together are left out of a part of a run, which the picture does not show anyway.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = run.select(prompts=side.prompt_ids)
    ratio = low = high = math.nan
    try:
        profile = read_profile(run, comparison.data.attrs.get("cluster"))
    except OptionError:
        return RunCurve(side.name, side.n_blocks, None, ratio, low, high)
    if profile.head is not None:
        ratio, low, high = (end / side.n_blocks for end in (profile.head.tokens.value, *profile.head.tokens.interval))
    return RunCurve(side.name, side.n_blocks, profile.share, ratio, low, high)


def _leading(comparison: Comparison) -> int:
    """Return the comparison whose head has the smallest p, the first of equal ones."""
    rows = [head_row(comparison, number) for number in range(comparison.data.sizes["comparison"])]
    best = [2.0 if row is None or math.isnan(row.p) else row.p for row in rows]
    return best.index(min(best))


def _choose_decimals(comparison: Comparison) -> int:
    """Return the decimals of depths on the picture, so that they show every difference that is stated of them."""
    if comparison.quantity != DIFFERENCE:
        return 0
    rows = [head_row(comparison, number) for number in range(comparison.data.sizes["comparison"])]
    return max((decimals(row) for row in rows if row is not None), default=0)


def _ratio_names(comparison: Comparison, number: int) -> list[str]:
    if comparison.quantity != DIFFERENCE:
        return []
    return [str(comparison.data[name].values[number]) for name in ("other", "reference")]


def _difference_rows(comparison: Comparison, number: int) -> list[list[str]]:
    rows = []
    head = head_row(comparison, number)
    for row in [*([] if head is None else [head]), *surviving(comparison, number)]:
        reference, other = percents(row)
        ratios = [other, reference] if comparison.quantity == DIFFERENCE else []
        name = _HEADS.get(row.estimator) or estimator_name(row.estimator)
        rows.append([name, *ratios, difference_text(comparison, row)])
    return rows


def _name_silent(comparison: Comparison, number: int) -> str:
    """Name the estimators that do not tell, in one line."""
    proved = {row.estimator for row in surviving(comparison, number)}
    rows = rows_of_comparison(comparison, number)
    silent = [estimator_name(row.estimator) for row in rows if row.estimator not in proved and not math.isnan(row.p)]
    untested = [estimator_name(row.estimator) for row in rows if math.isnan(row.p)]
    parts = [f"Not proved after correction: {'; '.join(silent)}." if silent else ""]
    parts.append(f"Without a test: {'; '.join(untested)}." if untested else "")
    return " ".join(part for part in parts if part)


def _describe(curves: list[RunCurve]) -> str:
    parts = []
    for curve in curves:
        depth = ""
        if not math.isnan(curve.ratio):
            depth = f", prediction kept from {100 * curve.ratio:.0f} % of its depth on"
        share = ""
        if curve.share is not None:
            places = zip(curve.share.places, curve.share.mean)
            listed = [f"{100 * mean:.0f} % at {place}" for place, mean in places if not math.isnan(mean)]
            share = f"; share of tokens with their final prediction, by blocks done: {', '.join(listed)}"
        parts.append(f"{curve.name}, {curve.n_blocks} blocks{depth}{share}.")
    return f"Runs over the share of their depth. {' '.join(parts)}"


def _role(number: int) -> str:
    return ROLES[number] if number < len(ROLES) else "muted"
