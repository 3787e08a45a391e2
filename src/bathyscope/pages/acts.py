"""Sections of a page for what acts on depth: the plan that ``prune`` made, and what ``repair`` measured.

They come before the runs: whoever has decided wants the decision first, and whether it is proved.
"""

from __future__ import annotations

import shlex
from typing import Any

from bathyscope.pages import html
from bathyscope.pages.figures.of import plan as plan_figure
from bathyscope.surgery.plan import Plan
from bathyscope.surgery.plan_text import HEADINGS, cells
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
    """Return what a page shows of a plan or a repair: the conclusion first, then numbers, then what to do next."""
    return {
        "anchor": anchor,
        "heading": heading_of(act),
        "text": act.text,
        "proved": act.proved,
        **(_plan(act, anchor) if isinstance(act, Plan) else _repair(act)),
    }


def _plan(plan: Plan, anchor: str) -> dict[str, Any]:
    tables = []
    if plan.fits:
        rows = [[name, _number(before), _number(after)] for name, before, after in plan.before_after.values.tolist()]
        tables.append((["what the choice changes", "before", "after"], rows))
    if plan.tasks_data is not None:
        tables.append((list(TASK_HEADINGS), task_cells(plan.tasks_data)))
    return {
        "figure": html.figure(plan_figure.drawing(plan), anchor, ["candidate", *HEADINGS.values()], cells(plan.data)),
        "tables": tables,
        "command": _command(plan),
    }


def _repair(repaired: Repaired) -> dict[str, Any]:
    return {
        "figure": None,
        "tables": [(list(REPAIR_HEADINGS), [rung.cells() for rung in repaired.rungs])],
        "command": "",
    }


def _command(plan: Plan) -> str:
    """Return the command that writes the choice; empty where nothing is to be written."""
    if not plan.fits or not plan.leaves_blocks:
        return ""
    model = shlex.quote(str(plan.data.attrs["model"]))
    return f"bathyscope export {model} --schedule {plan.schedule} --out SMALLER"


def _number(value: object) -> str:
    """Return a count with its digits grouped, and any other number with four."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{int(value):,}" if isinstance(value, int | float) else str(value)
