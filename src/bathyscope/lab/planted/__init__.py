"""Models that were built, not trained, so that their use of depth is known: what every measure makes of them.

    from bathyscope.lab import planted
    planted.table()["rescaling"]["frozen_kl"].verdict

``python -m bathyscope.lab.planted FILE`` writes the table into a Markdown file.
"""

from __future__ import annotations

from bathyscope.lab.planted.construction import Construction, Departure, Verdict
from bathyscope.lab.planted.judging import CONSTRUCTIONS, READINGS, Cell, judge, table
from bathyscope.lab.planted.surveyed import prompts, surveyed
from bathyscope.lab.planted.truth import Truth

__all__ = [
    "CONSTRUCTIONS",
    "READINGS",
    "Cell",
    "Construction",
    "Departure",
    "Truth",
    "Verdict",
    "judge",
    "prompts",
    "surveyed",
    "table",
]
