"""A comparison as tables for the terminal and the page: one table for each, with a row for each estimator.

Groups of prompts are tables as well: one of every group's depths, one of every pair's differences.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import xarray as xr

from bathyscope.analysis.depths import Comparison
from bathyscope.core.text import level_text
from bathyscope.pages.text.table import estimator_name, group_names

LEGEND: Final = (
    "Ratio: blocks done/L of L blocks. p: two-sided test of no difference; Holm: corrected for all rows of all tables. "
    "d: difference over the spread of single prompts. > 0: share of resamples in which the difference is positive. "
    "p none, shown with a bound: test of a difference larger than the bound; a small p rules it out. "
    "Whole-numbered estimators (cosine, KL, top-k overlap) have no p; see their interpolated forms. "
    "Differences are rounded after subtraction."
)
GROUP_LEGEND: Final = (
    "Ratio: blocks done/L of L blocks; the deep-thinking ratio is a share of tokens. p: two-sided permutation test of "
    "prompts between the two groups, or read off the interval where a cluster has prompts in both; Holm: corrected for "
    "all rows of all tables. d: difference over the spread of single prompts. Whole-numbered estimators (cosine, KL, "
    "top-k overlap) have no p; see their interpolated forms."
)


def title(differences: xr.Dataset) -> str:
    """Write ``other − reference: paired, 10 prompts``."""
    prompts = int(differences["n_prompts"].max())
    counted = f"{prompts} prompt" if prompts == 1 else f"{prompts} prompts"
    return f"{differences['comparison'].item()}: {differences['kind'].item()}, {counted}"


def difference_rows(comparison: Comparison, number: int) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each estimator with a difference; also in blocks where both models have as many."""
    return _tabulate_differences(
        comparison.data.isel(comparison=number), comparison.change.capitalize(), comparison.level
    )


def no_difference(comparison: Comparison, number: int) -> list[str]:
    """Name the estimators that rule out a difference larger than the requested bound."""
    if not comparison.bound:
        return []
    p = comparison.data["p_equivalence"].isel(comparison=number).to_series()
    equivalent = p[p < 1 - comparison.level]
    estimators = "; ".join(f"{estimator_name(str(name))} (p {_write_p(value)})" for name, value in equivalent.items())
    larger = f"{comparison.change} larger than {comparison.bound}"
    return [f"No {larger}: {estimators}." if estimators else f"No estimator rules out a {larger}."]


def _write_p(p: float) -> str:
    text = show_p(p)
    return text if text.startswith("<") else f"= {text}"


def remarks(differences: xr.Dataset) -> list[str]:
    """Explain missing differences and intervals, one sentence for each reason."""
    reasons = differences["reason"].to_series()
    names_by_reason = group_names((reason, estimator_name(str(name))) for name, reason in reasons.items() if reason)
    return [f"{'; '.join(names)}: {reason}." for reason, names in names_by_reason.items()]


def signed(value: float, digits: int = 3) -> str:
    """Write ``+0.125``, ``−0.250`` or ``0.000``; a dash for a missing value."""
    if math.isnan(value):
        return "–"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+'}{text}"


def show_ratio(value: float) -> str:
    """Write ``0.125``; a dash for a missing value."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def show_p(value: float) -> str:
    """Write ``0.034`` or ``<0.001``; a dash for a missing value."""
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def group_rows(data: xr.Dataset) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each estimator: its value and interval in every group."""
    groups = zip(data["group"].values.tolist(), data["prompts"].values.tolist())
    rows = []
    for estimator in data["estimator"].values.tolist():
        values = data.sel(estimator=estimator)
        cells = zip(*(values[name].values.tolist() for name in ("value", "ci_low", "ci_high")))
        texts = [
            show_ratio(value) if math.isnan(low) else f"{value:.3f} ({low:.3f}–{high:.3f})"
            for value, low, high in cells
        ]
        rows.append([estimator_name(estimator), *texts])
    return ["Estimator", *(f"{name} ({prompts})" for name, prompts in groups)], rows


def pair_rows(data: xr.Dataset, pair: str) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each estimator with a difference between two groups."""
    differences = data[["difference", "difference_low", "difference_high", "p_value", "p_holm", "effect_size"]].sel(
        pair=pair
    )
    return _tabulate_differences(
        differences.rename(difference_low="ci_low", difference_high="ci_high"), "Difference", data.attrs["level"]
    )


def _tabulate_differences(differences: xr.Dataset, what: str, level: float) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of one comparison, with the columns whose variables it has."""
    frame = differences.to_dataframe().dropna(subset="difference")
    columns: dict[str, tuple[str, Callable[[float], str]]] = {
        "Reference": ("reference_ratio", show_ratio),
        "Other": ("other_ratio", show_ratio),
        what: ("difference", signed),
        f"{level_text(level)} interval": ("interval", str),
        "Blocks": ("depth_difference", partial(signed, digits=1)),
        "p": ("p_value", show_p),
        "Holm": ("p_holm", show_p),
        "p none": ("p_equivalence", show_p),
        "d": ("effect_size", partial(signed, digits=1)),
        "> 0": ("positive_share", lambda share: "–" if math.isnan(share) else f"{share:.0%}"),
    }
    ends = zip(frame["ci_low"], frame["ci_high"])
    frame["interval"] = ["–" if math.isnan(low) else f"{signed(low)} to {signed(high)}" for low, high in ends]
    if "depth_difference" in frame and frame["depth_difference"].isna().all():
        del frame["depth_difference"]
    present = {heading: column for heading, column in columns.items() if column[0] in frame}
    rows = [
        [estimator_name(str(estimator)), *(text_of(row[name]) for name, text_of in present.values())]
        for estimator, row in frame.iterrows()
    ]
    return ["Estimator", *present], rows


def group_remarks(data: xr.Dataset) -> list[str]:
    """Explain missing values and intervals of groups, one sentence for each reason."""
    frame = data["reason"].transpose("estimator", "group").to_dataframe().reset_index()
    each = zip(frame["group"], frame["reason"], frame["estimator"])
    names_by_reason = group_names(((group, reason), estimator_name(name)) for group, reason, name in each if reason)
    every = data.sizes["estimator"]
    return [
        f"{group}, {'all estimators' if len(names) == every else '; '.join(names)}: {reason}."
        for (group, reason), names in names_by_reason.items()
    ]
