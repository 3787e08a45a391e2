"""A comparison as tables for the terminal and the page: one table a comparison, one row an estimator.

Groups of prompts as tables, too: one of every group's depths, one of every pair's differences.
"""

import math
from typing import Final

import xarray as xr

from bathyscope.comparison import Comparison
from bathyscope.report.table import estimator_name

LEGEND: Final = (
    "Ratio: blocks done/L of L blocks. p: two-sided, of no difference; Holm: corrected for all rows of all tables. "
    "d: difference over the spread of single prompts. > 0: share of resamples in which the difference is positive. "
    "p none, where a bound was given or a question asked: of a difference larger than that; small = there is none. "
    "Whole-numbered estimators (cosine, KL, top-k overlap) have no p of their own; see their interpolated forms."
)
GROUP_LEGEND: Final = (
    "Ratio: blocks done/L of L blocks; the deep-thinking ratio is a share of tokens. p: two-sided, prompts dealt out "
    "to the two groups anew, or that of the interval where a cluster has prompts in both; Holm: corrected for all rows "
    "of all tables. d: difference over the spread of single prompts. Whole-numbered estimators (cosine, KL, top-k "
    "overlap) have no p of their own; see their interpolated forms."
)


def title(one: xr.Dataset) -> str:
    """``other − reference: paired, 10 prompts``."""
    prompts = int(one["n_prompts"].max())
    counted = f"{prompts} prompt" if prompts == 1 else f"{prompts} prompts"
    return f"{one['comparison'].item()}: {one['kind'].item()}, {counted}"


def headings(comparison: Comparison, number: int) -> list[str]:
    """Headings of :func:`rows`; differences in blocks only where both models have equally many."""
    change = comparison.change.capitalize()
    first = ["Estimator", "Reference", "Other", change, f"{comparison.level:.0%} interval"]
    blocks, none = ["Blocks"] * _in_blocks(comparison, number), ["p none"] * bool(comparison.bound)
    return [*first, *blocks, "p", "Holm", *none, "d", "> 0"]


def rows(comparison: Comparison, number: int) -> list[list[str]]:
    """One row an estimator that has a difference."""
    one = comparison.data.isel(comparison=number)
    found = []
    for estimator in one["estimator"].values:
        values = {str(name): v.item() for name, v in one.sel(estimator=estimator).data_vars.items()}
        if math.isnan(values["difference"]):
            continue
        low, high = values["ci_low"], values["ci_high"]
        interval = "–" if math.isnan(low) else f"{signed(low)} to {signed(high)}"
        blocks = [signed(values["depth_difference"], 1)] if _in_blocks(comparison, number) else []
        ratios = [show_ratio(values[name]) for name in ("reference_ratio", "other_ratio")]
        none = [show_p(values["p_equivalence"])] if comparison.bound else []
        tests = [show_p(values["p_value"]), show_p(values["p_holm"]), *none, signed(values["effect_size"], 1)]
        share = "–" if math.isnan(values["positive_share"]) else f"{values['positive_share']:.0%}"
        name = estimator_name(str(estimator))
        found.append([name, *ratios, signed(values["difference"]), interval, *blocks, *tests, share])
    return found


def no_difference(comparison: Comparison, number: int) -> list[str]:
    """Which estimators show that there is no difference larger than the bound that was asked for."""
    if not comparison.bound:
        return []
    p = comparison.data["p_equivalence"].isel(comparison=number).to_series()
    found = p[p < 1 - comparison.level]
    shown = "; ".join(f"{estimator_name(str(name))} (p {_of(value)})" for name, value in found.items())
    what = f"o {comparison.change} larger than {comparison.bound}"
    return [f"N{what}: {shown}." if shown else f"That there is n{what} is shown by no estimator."]


def _of(p: float) -> str:
    text = show_p(p)
    return text if text.startswith("<") else f"= {text}"


def remarks(one: xr.Dataset) -> list[str]:
    """Why differences or intervals are missing, estimators with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for estimator, reason in zip(one["estimator"].values, one["reason"].values):
        if reason:
            by_reason.setdefault(str(reason), []).append(estimator_name(str(estimator)))
    return [f"{'; '.join(names)}: {reason}." for reason, names in by_reason.items()]


def signed(value: float, digits: int = 3) -> str:
    """``+0.125``, ``−0.250``, ``0.000``, or a dash for what is missing."""
    if math.isnan(value):
        return "–"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+'}{text}"


def _in_blocks(comparison: Comparison, number: int) -> bool:
    return bool(comparison.data["depth_difference"].isel(comparison=number).notnull().any())


def show_ratio(value: float) -> str:
    """``0.125``, or a dash for what is missing."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def show_p(value: float) -> str:
    """``0.034``, ``<0.001``, or a dash for what is missing."""
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def group_rows(data: xr.Dataset) -> tuple[list[str], list[list[str]]]:
    """Headings, and every estimator on every group with its interval."""
    groups = zip(data["group"].values.tolist(), data["prompts"].values.tolist())
    rows = []
    for estimator in data["estimator"].values.tolist():
        one = data.sel(estimator=estimator)
        cells = zip(*(one[name].values.tolist() for name in ("value", "ci_low", "ci_high")))
        rows.append([estimator_name(estimator), *(_with_interval(*cell) for cell in cells)])
    return ["Estimator", *(f"{name} ({prompts})" for name, prompts in groups)], rows


def pair_rows(data: xr.Dataset, pair: str) -> tuple[list[str], list[list[str]]]:
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


def group_remarks(data: xr.Dataset) -> list[str]:
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
