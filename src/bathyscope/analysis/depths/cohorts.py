"""Which sides of a comparison are on the same prompts, and the terms of their contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths.pairing import match
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.statistics.difference import Term
from bathyscope.statistics.reading import Reading


class Cohort(NamedTuple):
    """Sides on the same prompts: number of each side, and the indices of its prompts."""

    members: list[int]
    prompts: list[NDArray[np.intp]]


def cohorts_of(sides: Sequence[ComparedPrompts], paired: bool | None) -> tuple[list[Cohort], list[str]]:
    """Sides in groups of the same prompts, each cut to the prompts that its whole group shares."""
    cohorts: list[Cohort] = []
    notes: list[str] = []
    for number, side in enumerate(sides):
        for cohort in cohorts:
            # Against the first of the cohort: being the same prompts is transitive.
            matched = match(sides[cohort.members[0]], side, paired)
            if matched.note:
                notes.append(matched.note)
            # A side joins a cohort on the prompts that all its sides share, and the cohort is cut to these.
            shared, places, others = np.intersect1d(cohort.prompts[0], matched.first, return_indices=True)
            if shared.size:
                cohort.prompts[:] = [*(prompts[places] for prompts in cohort.prompts), matched.second[others]]
                cohort.members.append(number)
                break
        else:
            cohorts.append(Cohort([number], [np.arange(len(side.prompts))]))
    return cohorts, notes


def terms_of(readings: Sequence[Reading], coefficients: Sequence[float], cohorts: Sequence[Cohort]) -> list[list[Term]]:
    """Return the terms of a contrast, a list for every cohort, from one reading of each side."""
    return [
        [
            Term(readings[member].take(prompts), coefficients[member])
            for member, prompts in zip(cohort.members, cohort.prompts)
        ]
        for cohort in cohorts
    ]
