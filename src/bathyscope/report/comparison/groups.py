"""Groups of prompts as tables for the terminal: one of every group's depths, one of every pair's differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from bathyscope.report.comparison.table import show_p, show_ratio, signed
from bathyscope.report.table import estimator_name

LEGEND: Final = (
    "Ratio: (depth + 1)/L of L blocks; the deep-thinking ratio is a share of tokens. p: two-sided, prompts dealt out "
    "to the two groups anew; Holm: corrected for all rows of all tables. d: difference over the spread of single "
    "prompts. Whole-numbered estimators (cosine, KL, top-k overlap) have no p of their own; see their interpolated "
    "forms."
)


def value_table(data: xr.Dataset) -> Table:
    """Every estimator on every group, with its interval, and below it why numbers are missing."""
    groups = zip(data["group"].values.tolist(), data["prompts"].values.tolist())
    table = _table(f"Depth by {data.attrs['by']}", [f"{name} ({prompts})" for name, prompts in groups], remarks(data))
    for estimator in data["estimator"].values.tolist():
        one = data.sel(estimator=estimator)
        cells = zip(*(one[name].values.tolist() for name in ("value", "ci_low", "ci_high")))
        table.add_row(estimator_name(estimator), *(_with_interval(*cell) for cell in cells))
    return table


def difference_table(data: xr.Dataset, pair: str) -> Table:
    """The difference of one pair of groups by every estimator that has one."""
    table = _table(pair, ["Difference", f"{data.attrs['level']:.0%} interval", "p", "Holm", "d"])
    names = ("difference", "difference_low", "difference_high", "p_value", "p_holm", "effect_size")
    for estimator in data["estimator"].values.tolist():
        one = data.sel(pair=pair, estimator=estimator)
        difference, low, high, p, holm, effect_size = (float(one[name]) for name in names)
        if math.isnan(difference):
            continue
        interval = "–" if math.isnan(low) else f"{signed(low)} to {signed(high)}"
        tests = (show_p(p), show_p(holm), signed(effect_size, 1))
        table.add_row(estimator_name(estimator), signed(difference), interval, *tests)
    return table


def remarks(data: xr.Dataset) -> list[str]:
    """Why values or intervals are missing, estimators with the same reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for estimator in data["estimator"].values.tolist():
        for group, reason in zip(
            data["group"].values.tolist(), data["reason"].sel(estimator=estimator).values.tolist()
        ):
            if reason:
                by_reason.setdefault((group, reason), []).append(estimator_name(estimator))
    every = data.sizes["estimator"]
    return [
        f"{group}, {'all estimators' if len(names) == every else '; '.join(names)}: {reason}."
        for (group, reason), names in by_reason.items()
    ]


def _table(title: str, headings: Sequence[str], below: Sequence[str] = ()) -> Table:
    table = Table(
        title=Text(title),
        caption=Text("\n".join(below)) if below else None,
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.title_justify = table.caption_justify = "left"
    table.add_column("Estimator", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _with_interval(value: float, low: float, high: float) -> str:
    return show_ratio(value) if math.isnan(low) else f"{value:.3f} ({low:.3f}–{high:.3f})"
