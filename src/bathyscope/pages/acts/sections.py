"""Sections of a page for results that are no runs: plans of ``prune``, repairs, courses, and where two models part.

They precede the runs, because a reader of a decision looks first for the decision and its proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from bathyscope.core.tables import TextTable, html_cells
from bathyscope.pages.acts.plan_head import plan_head
from bathyscope.pages.explorer import html
from bathyscope.pages.figures.results import draw_result

if TYPE_CHECKING:
    from bathyscope.core.result import PageResult

_HEADS: Final[Mapping[str, Callable[[Any], Markup]]] = {"plan": plan_head}
"""Kind of a result → draws the head of its section, in the place of a picture."""


def act_section(act: PageResult, anchor: str, *, text: bool = True) -> dict[str, Any]:
    """Return a page's section for a result: the conclusion, then numbers, then the next step.

    Args:
        text: show the words of prompts and predictions.
    """
    act = act if text else act.without_words()
    head = _HEADS[act.kind](act) if act.kind in _HEADS else ""
    tables = act.tables()
    # what a head draws is drawn once
    drawing = None if head else draw_result(act)
    figure = None
    if drawing is not None:
        numbers = tables.pop(0)
        figure = html.figure(drawing, anchor, numbers.headings, html_cells(numbers))
    return {
        "anchor": anchor,
        "heading": act.heading,
        "text": act.text,
        "head": head,
        "figure": figure,
        "tables": [page_table(table) for table in tables],
    }


def page_table(table: TextTable) -> dict[str, Any]:
    """Return what a template shows of a table."""
    return {
        "title": table.title,
        "headings": table.headings,
        "rows": html_cells(table),
        "caption": table.caption,
    }
