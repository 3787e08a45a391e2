"""A comparison as tables for the terminal and the page: one table a comparison, one row an estimator.

Groups of prompts as tables, too: one of every group's depths, one of every pair's differences.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import xarray as xr

from bathyscope.analysis.depths import Comparison
from bathyscope.pages.table import estimator_name, gathered

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


def difference_rows(comparison: Comparison, number: int) -> tuple[list[str], list[list[str]]]:
    """Headings, and every estimator that has a difference; in blocks, too, where both models have equally many."""
    return _rows(comparison.data.isel(comparison=number), comparison.change.capitalize(), comparison.level)


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
    reasons = one["reason"].to_series()
    told = gathered((reason, estimator_name(str(name))) for name, reason in reasons.items() if reason)
    return [f"{'; '.join(names)}: {reason}." for reason, names in told.items()]


def signed(value: float, digits: int = 3) -> str:
    """``+0.125``, ``−0.250``, ``0.000``, or a dash for what is missing."""
    if math.isnan(value):
        return "–"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+'}{text}"


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
        said = [
            show_ratio(value) if math.isnan(low) else f"{value:.3f} ({low:.3f}–{high:.3f})"
            for value, low, high in cells
        ]
        rows.append([estimator_name(estimator), *said])
    return ["Estimator", *(f"{name} ({prompts})" for name, prompts in groups)], rows


def pair_rows(data: xr.Dataset, pair: str) -> tuple[list[str], list[list[str]]]:
    """Headings, and the difference of one pair of groups by every estimator that has one."""
    own = data[["difference", "difference_low", "difference_high", "p_value", "p_holm", "effect_size"]].sel(pair=pair)
    return _rows(own.rename(difference_low="ci_low", difference_high="ci_high"), "Difference", data.attrs["level"])


def _rows(one: xr.Dataset, what: str, level: float) -> tuple[list[str], list[list[str]]]:
    """The columns whose variables are there, of one comparison."""
    found = one.to_dataframe().dropna(subset="difference")
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "Reference": ("reference_ratio", show_ratio),
        "Other": ("other_ratio", show_ratio),
        what: ("difference", signed),
        f"{level:.0%} interval": ("interval", str),
        "Blocks": ("depth_difference", partial(signed, digits=1)),
        "p": ("p_value", show_p),
        "Holm": ("p_holm", show_p),
        "p none": ("p_equivalence", show_p),
        "d": ("effect_size", partial(signed, digits=1)),
        "> 0": ("positive_share", lambda share: "–" if math.isnan(share) else f"{share:.0%}"),
    }
    ends = zip(found["ci_low"], found["ci_high"])
    found["interval"] = ["–" if math.isnan(low) else f"{signed(low)} to {signed(high)}" for low, high in ends]
    if "depth_difference" in found and found["depth_difference"].isna().all():
        del found["depth_difference"]
    there = {heading: column for heading, column in shown.items() if column[0] in found}
    rows = [
        [estimator_name(str(estimator)), *(said(row[name]) for name, said in there.values())]
        for estimator, row in found.iterrows()
    ]
    return ["Estimator", *there], rows


def group_remarks(data: xr.Dataset) -> list[str]:
    """Why values or intervals are missing, estimators with the same reason together."""
    found = data["reason"].transpose("estimator", "group").to_dataframe().reset_index()
    each = zip(found["group"], found["reason"], found["estimator"])
    told = gathered(((group, reason), estimator_name(name)) for group, reason, name in each if reason)
    every = data.sizes["estimator"]
    return [
        f"{group}, {'all estimators' if len(names) == every else '; '.join(names)}: {reason}."
        for (group, reason), names in told.items()
    ]
