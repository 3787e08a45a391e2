"""Sections of a page for results that are no runs: plans of ``prune``, repairs, courses, and where two models part.

They precede the runs, because a reader of a decision looks first for the decision and its proof.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.analysis.between.diff_text import parting_tokens
from bathyscope.analysis.between.parting import Difference, without_words
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import true_minus, visible, without_folders
from bathyscope.pages.acts.plan_head import plan_html
from bathyscope.pages.explorer import html
from bathyscope.pages.figures.arguments import Act
from bathyscope.pages.figures.of import course as course_figure
from bathyscope.pages.figures.of import diff as diff_figure
from bathyscope.pages.figures.of import plan as plan_figure
from bathyscope.pages.text.commands import quote_result
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.plan.stability_text import AGAIN_HEADINGS, again_cells, transfer_cells, transfer_headings
from bathyscope.surgery.plan.task_table import HEADINGS as TASK_HEADINGS
from bathyscope.surgery.plan.task_table import task_cells
from bathyscope.surgery.plan.text import HEADINGS, cells
from bathyscope.surgery.repairing.repaired import HEADINGS as REPAIR_HEADINGS
from bathyscope.surgery.repairing.repaired import Repaired
from bathyscope.surveying.training.steps import Course


def heading_of(act: Act) -> str:
    """Return the heading of a section."""
    if isinstance(act, Course):
        return f"Depth while it trained: {act.data.attrs['model']}"
    if isinstance(act, Difference):
        return f"Where they part: {act.data.attrs['model']} and {act.data.attrs['other']}"
    if isinstance(act, Plan):
        return f"What leaving out costs: {without_folders(str(act.data.attrs['model']))}"
    return f"Repaired: {without_folders(str(act.about.model.get('name', 'a model')))} with {act.schedule}"


def act_section(act: Act, anchor: str, *, text: bool = True) -> dict[str, Any]:
    """Return a page's section for a result: the conclusion, then numbers, then the next step.

    Args:
        text: show the words of prompts and predictions.
    """
    section = {"anchor": anchor, "heading": heading_of(act), "text": act.text, "head": ""}
    if isinstance(act, Plan):
        return {**section, **_show_plan(act, anchor)}
    if isinstance(act, Course):
        return {**section, **_show_course(act, anchor)}
    return {**section, **(_show_difference(act, anchor, text) if isinstance(act, Difference) else _show_repair(act))}


def _show_course(course: Course, anchor: str) -> dict[str, Any]:
    data = course.data
    tables = []
    if "change" in data:
        rows = [
            [reading, *(_with_interval(data.sel(reading=reading), name) for name in ("change", "slope"))]
            for reading in data["reading"].values.tolist()
        ]
        tables.append((["reading, in blocks", "last step less first", "per 1,000 steps"], rows))
    if "matters_from" in data:
        # where no step has an interval nothing was shown, not even that a block never matters
        unknown = data["added_loss_low"].isnull().all("step").values
        steps = [
            str(int(step)) if step == step else "unknown" if is_unknown else "not shown"
            for step, is_unknown in zip(data["matters_from"].values, unknown)
        ]
        tables.append((["block", *map(str, range(len(steps)))], [["matters from step", *steps]]))
    table = course.to_dataframe()
    rows = [[_format_number(value) for value in row] for row in table.itertuples(index=False)]
    picture = course_figure.drawing(data)
    figure = html.figure(picture, anchor, [str(name) for name in table.columns], rows) if picture.panels else None
    return {"figure": figure, "tables": tables, "command": "", "shows_figure": True}


def _show_difference(result: Difference, anchor: str, text: bool) -> dict[str, Any]:
    data = result.data if text else without_words(result.data)
    sums = [
        [label, _with_ends(data, name)]
        for label, name in (
            ("predictions of A against B", "output"),
            ("all blocks of B in A", "cumulative"),
            ("left unexplained by single grafts, B in A", "unexplained"),
            ("left unexplained by single grafts, A in B", "unexplained_back"),
        )
    ]
    tables = [(["nats per token", "mean (interval)"], sums)]
    parted = parting_tokens(data)
    if len(parted):
        rows = [
            [
                f"{row.prompt}, token {row.token}",
                *(visible(str(word)) for word in (row.piece, row.predicted, row.other)),
                f"{row.kl:.3g}",
            ]
            for row in parted.itertuples()
        ]
        names = (f"A: {data.attrs['model']}", f"B: {data.attrs['other']}")
        tables.append((["where they part", "behind", *names, "KL (nats)"], rows))
    table = result.to_dataframe()
    rows = [[_format_number(value) for value in row] for row in table.itertuples(index=False)]
    figure = html.figure(diff_figure.drawing(data), anchor, [str(name) for name in table.columns], rows)
    return {"figure": figure, "tables": tables, "command": "", "shows_figure": True}


def _with_interval(data: xr.Dataset, name: str) -> str:
    return true_minus(f"{Estimate.of(data, name):+.2f}")


def _with_ends(data: xr.Dataset, name: str) -> str:
    """Return mean and interval over prompts; of a curve its last place."""
    value, low, high = (float(np.ravel(data[f"{name}_{end}"].values)[-1]) for end in ("mean", "low", "high"))
    return true_minus(f"{Estimate(value, low, high):.4g}")


def _show_plan(plan: Plan, anchor: str) -> dict[str, Any]:
    tables = []
    if plan.fits:
        rows = [
            [name, _format_number(before), _format_number(after)]
            for name, before, after in plan.before_after.values.tolist()
        ]
        tables.append((["what the choice changes", "before", "after"], rows))
    if again := again_cells(plan.data):
        tables.append((list(AGAIN_HEADINGS), again))
    if "transfer" in plan.data:
        tables.append((transfer_headings(plan.data), transfer_cells(plan.data)))
    if plan.tasks_data is not None:
        tables.append((list(TASK_HEADINGS), task_cells(plan.tasks_data)))
    return {
        "figure": html.figure(plan_figure.drawing(plan), anchor, ["candidate", *HEADINGS.values()], cells(plan.data)),
        "tables": tables,
        "head": plan_html(plan, _write_export_command(plan)),
        "command": "",
        "shows_figure": False,
    }


def _show_repair(repaired: Repaired) -> dict[str, Any]:
    return {
        "figure": None,
        "tables": [(list(REPAIR_HEADINGS), [rung.cells() for rung in repaired.rungs])],
        "command": "",
        "shows_figure": False,
    }


def _write_export_command(plan: Plan) -> str:
    """Return the command that writes the model of a plan with its evidence; empty where nothing can be written."""
    return f"bathyscope export {quote_result(plan.stored_in)} --out SMALLER" if plan.fits else ""


def _format_number(value: object) -> str:
    """Return a count with its digits grouped, and any other number with four; a dash for what is missing."""
    if isinstance(value, float) and isnan(value):
        return "–"
    if isinstance(value, float) and not value.is_integer():
        return true_minus(f"{value:.4g}")
    return f"{int(value):,}" if isinstance(value, int | float) else str(value)
