"""One planted model: how it is built, what is true of it, and which measures it is known to fool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from bathyscope import Prompt
from studies.planted.truth import Truth
from studies.planted.wiring import Planted


class Verdict(Enum):
    """What a measure makes of a planted model; the value is its sign in the table."""

    RIGHT = "✓"
    FOOLED = "✗"
    SILENT = "–"


@dataclass(frozen=True)
class Departure:
    """Measures that do not say what is true, and why.

    Args:
        verdict: FOOLED = they say something else; SILENT = they say nothing.
        measures: names of readings (``readings.READINGS``).
        why: one sentence or two.
    """

    verdict: Verdict
    measures: tuple[str, ...]
    why: str


def fooled(*measures: str, why: str) -> Departure:
    """These measures say something that is not so."""
    return Departure(Verdict.FOOLED, measures, why)


def silent(*measures: str, why: str) -> Departure:
    """These measures say nothing."""
    return Departure(Verdict.SILENT, measures, why)


@dataclass(frozen=True)
class Construction:
    """A planted model with what is known of it.

    Args:
        name: unique, a heading and a column of the table.
        planted: what was built, in a sentence or two.
        truth: what follows from that.
        build: makes the model, the same at every call.
        departures: every measure that is fooled or silent; all others must be right.
        prompts: that many prompts to survey it with; None = random tokens (``surveyed.prompts``).
    """

    name: str
    planted: str
    truth: Truth
    build: Callable[[], Planted]
    departures: tuple[Departure, ...] = ()
    prompts: Callable[[int], list[Prompt]] | None = None

    def departure(self, measure: str) -> Departure | None:
        """Why a measure does not say what is true here; None where it must."""
        return next((d for d in self.departures if measure in d.measures), None)

    def expected(self, measure: str) -> Verdict:
        """What the measure is known to make of this model."""
        found = self.departure(measure)
        return Verdict.RIGHT if found is None else found.verdict
