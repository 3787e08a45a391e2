"""Costs of a plan's candidates on the test prompts, a row for each with its interval: on its page and as a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import xarray as xr

from bathyscope.core.estimates import Estimate, write_signed
from bathyscope.core.text import level_text, true_minus
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit.painting import paint
from bathyscope.pages.head.canvas import Canvas, text_width, wrap
from bathyscope.pages.head.layouts import ProfileLayout, paper_layout
from bathyscope.prompts.parts import resampled
from bathyscope.surgery.plan.at_random import RANDOM
from bathyscope.surgery.plan.bound import bound_text
from bathyscope.surgery.plan.price import unit_of

_ROW, _NARROW_ROW = 27.0, 42.0
_NAMES, _NUMBERS = 250.0, 150.0
"""Width of the names and of the numbers next to the intervals."""
_INCHES: Final = 6.75
_FAR: Final = 2.0
"""How often the mean of random subsets may lengthen the axis; one expensive block would hide all others next to it."""


@dataclass(frozen=True)
class CandidateRow:
    """One candidate: its mean cost on the test prompts with its interval, and whether it is as good as the best."""

    name: str
    subset: str
    cost: float
    low: float
    high: float
    alike: bool


def candidate_rows(data: xr.Dataset) -> list[CandidateRow]:
    """Return the candidates of a plan's data, the choice first."""
    columns = ("candidate", "subset", "test_cost", "test_cost_low", "test_cost_high", "indistinguishable")
    columns_of = (data[column].values.tolist() for column in columns)
    return [
        CandidateRow(str(name), str(subset), float(cost), float(low), float(high), bool(alike))
        for name, subset, cost, low, high, alike in zip(*columns_of)
    ]


def drawing(data: xr.Dataset) -> Drawing:
    """Draw the costs of all candidates in one panel."""
    costs = ", ".join(f"{row.name} {row.cost:.4g}" for row in candidate_rows(data))
    note = (
        f"Cost of leaving out {int(data.attrs['size'])} of {int(data.attrs['n_units'])} on {data.sizes['prompt']} test "
        f"prompts, by the rule that chose them; whiskers: {level_text(float(data.attrs['level']))} intervals over "
        f"{resampled(data.attrs.get('cluster'))}. "
        "Hollow marks differ clearly from the best (paired bootstrap, corrected for all pairs)."
    )
    canvas = _draw(_INCHES, data)
    size = (_INCHES, _INCHES * canvas.height / canvas.width)
    draw = partial(paint, draw=partial(_draw, data=data))
    panel = Panel("costs", draw, f"Test costs in {unit_of(data.attrs)}: {costs}.", size)
    return Drawing([panel], note, heading="What candidates cost on other text")


def _draw(inches: float, data: xr.Dataset) -> Canvas:
    layout = paper_layout(inches)
    canvas = Canvas(layout.width)
    canvas.height = draw_candidates(canvas, layout, data, 20.0)
    return canvas


def ends_of_picture(layout: ProfileLayout) -> tuple[float, float]:
    """Return where a plan's picture begins and ends; on narrow screens it has no room for margins."""
    return (8.0, layout.width - 8.0) if layout.own_line else (layout.left, layout.width - layout.right)


def draw_candidates(canvas: Canvas, layout: ProfileLayout, data: xr.Dataset, y: float) -> float:
    """Draw every candidate's cost with its interval; return where the drawing ends.

    Args:
        y: of the line that says what is drawn.
    """
    rows, narrow = candidate_rows(data), layout.own_line
    left, right = ends_of_picture(layout)
    start, end = (left + 8, right - 8) if narrow else (left + _NAMES, right - _NUMBERS)
    limit = data.attrs.get("max_cost")
    low, high = _ends_of_axis(rows, float(limit or 0))
    span = (high - low) or 1.0

    def across(cost: float) -> float:
        return start + (end - start) * (cost - low) / span

    canvas.text(left, y, f"loss added on the test prompts, {unit_of(data.attrs)}", 13, role="muted", label="x")
    top = y + 12
    step = _NARROW_ROW if narrow else _ROW
    foot = top + step * len(rows)
    # On narrow screens names are above the intervals, where the lines leave out their rows.
    spans = [(top + step * number + 20, top + step * number + 40) for number in range(len(rows))]
    ticks = _round_costs(low, high)
    for begin, end_of_line in spans if narrow else [(top, foot)]:
        for tick in ticks:
            canvas.line(across(tick), begin, across(tick), end_of_line, "grid", 1)
        canvas.line(across(0), begin, across(0), end_of_line, "muted", 1)
        if limit:
            canvas.line(across(float(limit)), begin, across(float(limit)), end_of_line, "vermilion", 1.2, "4 3")
    for number, row in enumerate(rows):
        is_far = row.cost > high
        _draw_candidate(
            canvas, row, number, top + step * number, across, (left, start, end), narrow=narrow, is_far=is_far
        )
    # The two lines may be next to each other, so what they mean is in one line below.
    words = (
        f"line: 0; dashed: the limit, {bound_text(data.attrs).removesuffix(' nats')}"
        if limit
        else "line: 0, the full model"
    )
    y = foot + 14
    for tick in ticks:
        canvas.text(across(tick), y, true_minus(f"{tick:g}"), 12, role="muted", anchor="middle")
    y += 6
    arrow = " Arrow: beyond the axis." if any(row.cost > high for row in rows) else ""
    for line in wrap(f"{words}. Filled: no other candidate is shown to cost less.{arrow}", right - left, 12):
        y += 16
        canvas.text(left, y, line, 12, role="muted")
    return y + 12


def _ends_of_axis(rows: Sequence[CandidateRow], limit: float) -> tuple[float, float]:
    """Return the ends of the axis: those of all intervals, without the mean of random subsets where it is far off."""

    def ends_of(some: Sequence[CandidateRow]) -> tuple[float, float]:
        ends = [value for row in some for value in (row.cost, row.low, row.high) if not math.isnan(value)]
        return min([*ends, 0.0]), max([*ends, limit, 0.0])

    low, high = ends_of(rows)
    near_low, near_high = ends_of([row for row in rows if row.name != RANDOM])
    is_far = near_high > near_low and high - low > _FAR * (near_high - near_low)
    # a mean of which only the interval is far off keeps its place
    has_mark_far = any(row.name == RANDOM and row.low > near_high for row in rows)
    return (near_low, near_high) if is_far and has_mark_far else (low, high)


def write_candidate_cost(cost: float) -> str:
    """Return a cost with its sign and three decimals below 1, else two."""
    return write_signed(cost, 3 if abs(cost) < 1 else 2)


def _round_costs(low: float, high: float) -> list[float]:
    """Return a few round numbers from ``low`` to ``high``, as an axis names them."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(tick) for tick in ticks if low <= tick <= high]


def _draw_candidate(
    canvas: Canvas,
    row: CandidateRow,
    number: int,
    y: float,
    across: Callable[[float], float],
    edges: tuple[float, float, float],
    *,
    narrow: bool,
    is_far: bool,
) -> None:
    left, start, end = edges
    role = "blue" if number == 0 else "muted"
    middle = y + (30 if narrow else _ROW / 2)
    subset = row.subset.replace("drop:", "").replace(",", ", ")
    room = (end - left) if narrow else start - left - 14
    label, remarks = (row.name, [subset]) if number else ("the choice", [f"{row.name}: {subset}", subset])
    room -= 120 if narrow else 0
    remark = next((text for text in remarks if text_width(f"{label}  {text}", 13, bold=True) < room), "")
    baseline = y + 14 if narrow else middle + 5
    canvas.text(left, baseline, label, 13, bold=number == 0, halo=True, remark=remark, remark_size=12)
    if is_far:
        canvas.curve([(end - 6, middle - 5), (end, middle), (end - 6, middle + 5)], role, 2)
    elif not math.isnan(row.low):
        canvas.line(across(row.low), middle, across(row.high), middle, role, 3)
    if not math.isnan(row.cost) and not is_far:
        canvas.circle(across(row.cost), middle, 5, role)
        if not row.alike:
            canvas.circle(across(row.cost), middle, 2.8, "paper")
    text = "not a number" if math.isnan(row.cost) else write_candidate_cost(row.cost)
    estimate = Estimate(row.cost, row.low, row.high)
    interval = estimate.interval(write_candidate_cost) if estimate.has_interval else ""
    if narrow:
        canvas.text(canvas.width - 8, baseline, f"{text} ({interval})" if interval else text, 12, anchor="end")
    else:
        canvas.text(end + 14, baseline, text, 13, bold=number == 0, remark=interval, remark_size=11.5)
