"""Sections of a page for actions on depth: plans of ``prune``, and results of ``repair``.

They precede the runs, because a reader of a decision looks first for the decision and its proof.
"""

from __future__ import annotations

import shlex
from typing import Any

from bathyscope.pages import html
from bathyscope.pages.figures.of import plan as plan_figure
from bathyscope.surgery.plan import Plan
from bathyscope.surgery.plan_text import (
    AGAIN_HEADINGS,
    HEADINGS,
    again_cells,
    cells,
    transfer_cells,
    transfer_headings,
)
from bathyscope.surgery.repaired import HEADINGS as REPAIR_HEADINGS
from bathyscope.surgery.repaired import Repaired
from bathyscope.surgery.task_table import HEADINGS as TASK_HEADINGS
from bathyscope.surgery.task_table import task_cells


def heading_of(act: Plan | Repaired) -> str:
    """Return the heading of a section."""
    if isinstance(act, Plan):
        return f"Which blocks can go: {act.data.attrs['model']}"
    return f"Repaired: {act.about.model.get('name', 'a model')} with {act.schedule}"


def act_section(act: Plan | Repaired, anchor: str) -> dict[str, Any]:
    """Return a page's section for a plan or a repair: the conclusion, then numbers, then the next step."""
    return {
        "anchor": anchor,
        "heading": heading_of(act),
        "text": act.text,
        "proved": act.proved,
        **(_show_plan(act, anchor) if isinstance(act, Plan) else _show_repair(act)),
    }


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
        "command": _write_export_command(plan),
    }


def _show_repair(repaired: Repaired) -> dict[str, Any]:
    return {
        "figure": None,
        "tables": [(list(REPAIR_HEADINGS), [rung.cells() for rung in repaired.rungs])],
        "command": "",
    }


def _write_export_command(plan: Plan) -> str:
    """Return the command that writes the smaller model; empty where nothing can be written."""
    if not plan.fits or not plan.leaves_blocks:
        return ""
    # A folder may contain blanks, and the command on the page is meant to be pasted into a shell.
    model = shlex.quote(str(plan.data.attrs["model"]))
    return f"bathyscope export {model} --schedule {plan.schedule} --out SMALLER"


def _format_number(value: object) -> str:
    """Return a count with its digits grouped, and any other number with four."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{int(value):,}" if isinstance(value, int | float) else str(value)
