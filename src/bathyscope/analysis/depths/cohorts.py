"""Which sides of a comparison are on the same prompts, and how a reading of each is contrasted with the others."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths.pairing import match
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.arrays import FloatArray, collect
from bathyscope.statistics.difference import Contrast, Term
from bathyscope.statistics.difference import contrast as contrast_of
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling

OTHER_MINUS_REFERENCE: Final = (-1.0, 1.0)
"""Coefficients of a difference of two sides."""


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


def apart(sizes: Sequence[int]) -> list[Cohort]:
    """Return sides of different prompts, each a cohort of its own; ``sizes`` are their numbers of prompts."""
    return [Cohort([number], [np.arange(size)]) for number, size in enumerate(sizes)]


class Contrasted(NamedTuple):
    """One reading of every side of a comparison, contrasted.

    Args:
        contrast: of the sides together.
        estimates: number of a side → its own estimate, from the prompts that are compared.
        ends: the estimates of the reference and of the other, the first and the last side; NaN where one is missing.
    """

    contrast: Contrast
    estimates: Mapping[int, float]
    ends: tuple[float, float]


def contrasted(
    readings: Sequence[Reading],
    coefficients: Sequence[float],
    cohorts: Sequence[Cohort],
    sampling: Sampling,
    bound: float | None = None,
) -> Contrasted:
    """Contrast one reading of each side; sides of one cohort are resampled together.

    Every difference of depths is computed here, of runs and of groups of one run's prompts.

    Args:
        bound: of equivalence, above 0; None = not asked.
    """
    terms = [
        [
            Term(readings[member].take(prompts), coefficients[member])
            for member, prompts in zip(cohort.members, cohort.prompts)
        ]
        for cohort in cohorts
    ]
    contrast = contrast_of(terms, sampling, bound=bound)
    estimates = dict(zip([member for cohort in cohorts for member in cohort.members], contrast.estimates))
    ends = estimates.get(0, math.nan), estimates.get(len(readings) - 1, math.nan)
    return Contrasted(contrast, estimates, ends)


def why_no_interval(result: Contrast, unit: str) -> str:
    """Return why a contrast has no interval; empty where it has one, or no value.

    Args:
        unit: what is drawn, such as "clusters".
    """
    if np.isnan(result.estimate) or not np.isnan(result.ci_low):
        return ""
    if np.isnan(result.exists_share):
        return f"an interval needs at least two {unit} with values on each side"
    return "too few resamples have a value for an interval"


_FIELDS: Final = {
    "difference": "estimate",
    "difference_low": "ci_low",
    "difference_high": "ci_high",
    "standard_error": "standard_error",
    "effect_size": "effect_size",
    "p_value": "p_value",
}
"""Variable of a table → what it is of a contrast."""


def columns_of(outcomes: Sequence[Sequence[Contrasted]], names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the variables of contrasts that are among ``names``, each an array like the nested list."""
    contrasts = [[outcome.contrast for outcome in row] for row in outcomes]
    columns = {name: collect(contrasts, field) for name, field in _FIELDS.items() if name in names}
    if "n_prompts" in names:
        columns["n_prompts"] = np.array([[sum(cell.n_prompts) for cell in row] for row in contrasts])
    if "n_units" in names:
        columns["n_units"] = np.array([[cell.n_units for cell in row] for row in contrasts])
    return columns


def ends_of(outcomes: Sequence[Sequence[Contrasted]]) -> tuple[FloatArray, FloatArray]:
    """Return the estimates of the reference and of the other, each an array like the nested list."""
    ends = np.array([[outcome.ends for outcome in row] for row in outcomes], dtype=np.float64)
    return ends[..., 0], ends[..., 1]
