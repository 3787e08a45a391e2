"""What happened to a measure or an act of a model over ranks, compared with the whole model."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT, REFUSED, WRONG, CRASHED, EQUAL = "right", "refused", "wrong", "crashed", "equal"


@dataclass(frozen=True)
class Outcome:
    """What happened to one measure or act of one family.

    Args:
        family: entry of the zoo.
        ranks: over how many it was split.
        what: a measure, or an act such as ``schedule``.
        outcome: right (within ``CLOSE``), equal, refused, wrong or crashed.
        gap: the largest, relative to max(1, |expected|).
        note: where it is, or the reason of a refusal.
    """

    family: str
    ranks: int
    what: str
    outcome: str
    gap: str = ""
    note: str = ""
