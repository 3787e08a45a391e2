"""Groups of prompts as tables for the terminal: one of every group's depths, one of every pair's differences."""

import math
from typing import Final

import xarray as xr

from bathyscope.report.comparison.table import show_p, show_ratio, signed
from bathyscope.report.table import estimator_name

LEGEND: Final = (
    "Ratio: blocks done/L of L blocks; the deep-thinking ratio is a share of tokens. p: two-sided, prompts dealt out "
    "to the two groups anew; Holm: corrected for all rows of all tables. d: difference over the spread of single "
    "prompts. Whole-numbered estimators (cosine, KL, top-k overlap) have no p of their own; see their interpolated "
    "forms."
)


def value_rows(data: xr.Dataset) -> tuple[list[str], list[list[str]]]:
    """Headings, and every estimator on every group with its interval."""
    groups = zip(data["group"].values.tolist(), data["prompts"].values.tolist())
    rows = []
    for estimator in data["estimator"].values.tolist():
        one = data.sel(estimator=estimator)
        cells = zip(*(one[name].values.tolist() for name in ("value", "ci_low", "ci_high")))
        rows.append([estimator_name(estimator), *(_with_interval(*cell) for cell in cells)])
    return ["Estimator", *(f"{name} ({prompts})" for name, prompts in groups)], rows


def difference_rows(data: xr.Dataset, pair: str) -> tuple[list[str], list[list[str]]]:
    """Headings, and the difference of one pair of groups by every estimator that has one."""
    names = ("difference", "difference_low", "difference_high", "p_value", "p_holm", "effect_size")
    rows = []
    for estimator in data["estimator"].values.tolist():
        one = data.sel(pair=pair, estimator=estimator)
        difference, low, high, p, holm, effect_size = (float(one[name]) for name in names)
        if math.isnan(difference):
            continue
        interval = "–" if math.isnan(low) else f"{signed(low)} to {signed(high)}"
        tests = (show_p(p), show_p(holm), signed(effect_size, 1))
        rows.append([estimator_name(estimator), signed(difference), interval, *tests])
    return ["Estimator", "Difference", f"{data.attrs['level']:.0%} interval", "p", "Holm", "d"], rows


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


def _with_interval(value: float, low: float, high: float) -> str:
    return show_ratio(value) if math.isnan(low) else f"{value:.3f} ({low:.3f}–{high:.3f})"
