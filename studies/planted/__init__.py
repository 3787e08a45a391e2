"""Models that were built, not trained, so that their use of depth is known: what every measure makes of them.

    from studies import planted
    planted.table()["rescaling"]["frozen_kl"].verdict

``python -m studies.planted FILE`` writes the table into a Markdown file.
"""

from __future__ import annotations

from studies.planted.construction import Construction, Departure, Verdict
from studies.planted.judging import CONSTRUCTIONS, READINGS, Cell, judge, table
from studies.planted.surveyed import prompts, surveyed
from studies.planted.truth import Truth

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
