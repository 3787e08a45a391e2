"""Comparisons and groups of prompts as tables: what leads them, then a row for each estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bathyscope.analysis.depths.sentences import HasDifferences
from bathyscope.core.estimates import Estimate, Form, write_number, write_signed
from bathyscope.core.tables import TextTable
from bathyscope.core.text import level_text
from bathyscope.runs.depth_table import estimator_name, group_names

if TYPE_CHECKING:
    import xarray as xr

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
UNTRAINED_LEGEND: Final = "Untrained: mean of the same difference over the untrained controls of the run."


def comparison_tables(comparison: HasDifferences) -> list[TextTable]:
    """Return the tables of every comparison: readings of the verdict, costs of blocks, estimators."""
    return [
        table
        for number in range(comparison.data.sizes["comparison"])
        for table in (*leading_tables(comparison, number), difference_table(comparison, number))
    ]


def title(differences: xr.Dataset) -> str:
    """Write ``other − reference: paired, 10 prompts``."""
    prompts = int(differences["n_prompts"].max())
    counted = f"{prompts} prompt" if prompts == 1 else f"{prompts} prompts"
    return f"{differences['comparison'].item()}: {differences['kind'].item()}, {counted}"


def leading_tables(comparison: HasDifferences, number: int) -> list[TextTable]:
    """Return what leads one comparison; without tables of which there is no difference."""
    label = comparison.data["comparison"].values[number]
    readings = comparison.readings.isel(comparison=number).dropna("reading", subset=["difference"])
    ratios: dict[str, tuple[str, Form]] = {
        "Reference": ("reference_ratio", ".3f"),
        "Other": ("other_ratio", ".3f"),
        comparison.change.capitalize(): ("difference", write_signed),
        "p": ("p_value", show_p),
    }
    heading = f"{label}: readings of the verdict, as ratios of L"
    tables = [_tabulate(readings, "Reading", ratios, comparison.level, heading)]
    if comparison.blocks is not None:
        costs = comparison.blocks.isel(comparison=number).dropna("block", subset=["difference"])
        columns: dict[str, tuple[str, Form]] = {
            "Reference": ("reference_cost", write_signed),
            "Other": ("other_cost", write_signed),
            "Difference": ("difference", write_signed),
            "p": ("p_value", show_p),
            "Holm": ("p_holm", show_p),
        }
        heading = f"{label}: loss added without each block, nats per token"
        tables.append(_tabulate(costs, "Block", columns, comparison.level, heading))
    return [table for table in tables if table.rows]


def difference_table(comparison: HasDifferences, number: int) -> TextTable:
    """Return a row for each estimator with a difference; also in blocks where both models have as many."""
    data = comparison.data.isel(comparison=number)
    renamed = data.rename(ci_low="difference_low", ci_high="difference_high")
    table = _tabulate_estimators(renamed, comparison.change.capitalize(), comparison.level, title(data))
    caption = [*no_difference(comparison, number), *remarks(data)]
    if number == comparison.data.sizes["comparison"] - 1:
        caption.append(LEGEND)
    return replace(table, caption=caption, optional=("> 0", "d", "Blocks"))


def no_difference(comparison: HasDifferences, number: int) -> list[str]:
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


def show_p(value: float) -> str:
    """Write ``0.034`` or ``<0.001``; a dash for a missing value."""
    return "<0.001" if value < 0.001 else write_number(value, ".3f")


def group_tables(data: xr.Dataset) -> list[TextTable]:
    """Return every group's depths, then the differences of every two groups."""
    headings = [
        f"{name} ({prompts})" for name, prompts in zip(data["group"].values.tolist(), data["prompts"].values.tolist())
    ]
    rows = []
    for estimator in data["estimator"].values.tolist():
        values = data.sel(estimator=estimator)
        cells = zip(*(values[name].values.tolist() for name in ("value", "ci_low", "ci_high")))
        rows.append([estimator_name(estimator), *(Estimate(*cell) for cell in cells)])
    groups = TextTable(
        ["Estimator", *headings],
        rows,
        f"Depth by {data.attrs['by']}",
        group_remarks(data),
        forms=dict.fromkeys(headings, ".3f"),
    )
    columns = ["difference", "difference_low", "difference_high", "p_value", "p_holm", "effect_size"]
    if "untrained_difference" in data:
        data = data.assign(untrained_mean=data["untrained_difference"].mean("untrained"))
        columns.append("untrained_mean")
    pairs = [
        _tabulate_estimators(data[columns].sel(pair=pair), "Difference", data.attrs["level"], pair)
        for pair in data["pair"].values.tolist()
    ]
    *others, last = [groups, *pairs]
    untrained = [UNTRAINED_LEGEND] if "untrained_difference" in data else []
    return [*others, replace(last, caption=[*last.caption, GROUP_LEGEND, *untrained])]


def _tabulate_estimators(differences: xr.Dataset, what: str, level: float, heading: str) -> TextTable:
    """Return a row for each estimator with a difference, and the columns whose variables there are."""
    differences = differences.dropna("estimator", subset=["difference"])
    columns: dict[str, tuple[str, Form]] = {
        "Reference": ("reference_ratio", ".3f"),
        "Other": ("other_ratio", ".3f"),
        what: ("difference", write_signed),
        "Blocks": ("depth_difference", partial(write_signed, digits=1)),
        "p": ("p_value", show_p),
        "Holm": ("p_holm", show_p),
        "p none": ("p_equivalence", show_p),
        "d": ("effect_size", partial(write_signed, digits=1)),
        "Untrained": ("untrained_mean", write_signed),
        "> 0": ("positive_share", ".0%"),
    }
    present = {name: column for name, column in columns.items() if column[0] in differences}
    if "Blocks" in present and bool(differences["depth_difference"].isnull().all()):
        del present["Blocks"]
    return _tabulate(differences, "Estimator", present, level, heading)


def _tabulate(
    data: xr.Dataset, over: str, columns: dict[str, tuple[str, Form]], level: float, heading: str
) -> TextTable:
    """Return a row for every place of a dimension; the interval of the difference has a column behind it.

    Args:
        over: the dimension, as it is headed.
        columns: heading → variable, and how it is written.
    """
    dimension = over.lower()
    interval = f"{level_text(level)} interval"
    headings, forms = [over], {}
    for name, (variable, form) in columns.items():
        headings += [name, interval] if variable == "difference" else [name]
        forms[name] = form
    rows: list[list[str | float]] = []
    for place in range(data.sizes[dimension]):
        row = data.isel({dimension: place})
        label = str(row[dimension].item())
        cells: list[str | float] = [estimator_name(label) if over == "Estimator" else label]
        for variable, form in columns.values():
            estimate = Estimate.of(row, variable)
            cells += [estimate.value, estimate.interval(form)] if variable == "difference" else [estimate.value]
        rows.append(cells)
    return TextTable(headings, rows, heading, forms=forms)


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
