"""What a run shows of itself in a notebook: its card, and the explorer.

Runs lie below pages and import this module by its name, which is the only way up in the house: nobody who reads a run
outside a notebook waits for what is drawn of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from bathyscope.runs.run import Run


def make_card(run: Run, place: str) -> str:
    """Return the HTML that stands for a run: its profile, and what it holds.

    Args:
        place: where the run lies.
    """
    from bathyscope.pages.head.notebook import notebook_html

    return notebook_html(run, place)


def make_explorer(runs: Sequence[Run], *, names: Sequence[str] | None, text: bool, cluster: str | None) -> AnyWidget:
    """Return the widget behind ``Run.explore``, whose arguments these are."""
    from bathyscope.pages.explorer.widget import explorer

    return explorer(runs, names=names, text=text, cluster=cluster)
