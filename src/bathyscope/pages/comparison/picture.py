"""A comparison as its page begins: the sentence, all runs' curves over the share of their depth, and what differs."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
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
from bathyscope.pages.head.canvas import Canvas
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout
from bathyscope.pages.head.numbers import Points, read_profile
from bathyscope.pages.head.shares import MarkedDepth, ShareAxis, draw_share
from bathyscope.pages.head.svg import print_svg
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
_FEW: Final = 26
"""The same where there is little room."""
_WIDE: Final = replace(WIDE, label=15, row=26, plot=190)
_NARROW: Final = replace(NARROW, label=13, note=12, row=40, plot=150)


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
    wide, narrow = (
        print_svg(draw_comparison(curves, layout, digits), _describe(curves), name=layout.class_name)
        for layout in (_WIDE, _NARROW)
    )
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


def draw_comparison(curves: list[RunCurve], layout: ProfileLayout, digits: int = 0) -> Canvas:
    """Draw the share of tokens that are final over the share of each run's depth, with its depth as a mark.

    Args:
        digits: decimals of the depths in per cent.
    """
    canvas = Canvas(layout.width)
    ordered = sorted(
        ((curve, _role(number)) for number, curve in enumerate(curves) if not math.isnan(curve.ratio)),
        key=lambda item: -item[0].ratio,
    )
    rows = [_make_row(curve, role, layout, digits) for curve, role in ordered]
    lines = [4 + layout.row * (number + 1) - 9 for number in range(len(rows))]
    axis = ShareAxis(layout, 28.0 + layout.row * len(rows), 1.0)
    foot = axis.up(0.0)
    for line, row in zip(lines, rows):
        canvas.line(row.x, line, row.x, foot, row.role, 1.6, "4 3")
    axis.draw(canvas, "share of tokens with their final prediction")
    for number, curve in enumerate(curves):
        if curve.share is not None:
            draw_share(canvas, axis, curve.share, curve.n_blocks, _role(number), width=2.3, opacity=0.15)
    deeper = layout.width
    for line, row in zip(lines, rows):
        row.draw(canvas, layout, line, deeper)
        deeper = row.x
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "middle" if 0 < share < 1 or not layout.own_line else "start" if share == 0 else "end"
        text = f"{100 * share:.0f} %"
        canvas.text(axis.across(share), foot + 18, text, layout.small, role="muted", anchor=anchor)
    middle = axis.across(0.5)
    canvas.text(middle, foot + 36, "share of its blocks done", layout.small, role="muted", anchor="middle", label="x")
    canvas.height = foot + 44
    return canvas


def _make_row(curve: RunCurve, role: str, layout: ProfileLayout, digits: int) -> MarkedDepth:
    """Return the row of a run: its name and its depth in per cent, without the interval where that has no room."""
    label, shorter = (f"{elided(curve.name, letters)} {100 * curve.ratio:.{digits}f} %" for letters in (_LETTERS, _FEW))
    ends = Estimate(curve.ratio, 100 * curve.low, 100 * curve.high)
    remark = ends.interval(f".{min(digits, 1)}f") if ends.has_interval else ""
    x, low, high = (layout.across(share, 1.0) for share in (curve.ratio, curve.low, curve.high))
    return MarkedDepth(x, low, high, role, label, remark, (shorter, ""), layout.label, role_of_words=role)


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
