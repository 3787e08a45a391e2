"""Differences of depth between two conditions: paired by problem within a seed, then with an interval over seeds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr

from studies.common.across_seeds import apart, said
from studies.common.arrays import FloatArray
from studies.saved_depth.expected import BOUND, CLAIMS, LEAST_PROBLEMS, LEAST_SOLVED, PRIMARY, SEEDS, Claim

Record = dict[str, Any]
Stored = Mapping[str, Sequence[Record]]
"""Condition → records of its seeds, in the order of the seeds."""
UNDECIDED: Final = "cannot be decided"


class Interval(NamedTuple):
    """A mean over models with its 95 % interval; ends are NaN with fewer than two values."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """One condition less another.

    Args:
        by_seed: mean over the problems that both models of a seed solve; NaN where those are too few,
            or one of the models has not learned the task.
        shared: how many problems that is, by seed.
        trained: mean over seeds, Student's interval.
        untrained: the same of untrained models, over all problems.
        excess: trained less untrained, Welch's interval.
    """

    by_seed: list[float]
    shared: list[int]
    trained: Interval
    untrained: Interval
    excess: Interval


def load_stored(results: Path) -> dict[str, list[Record]]:
    """Return the stored records by condition; a condition without all seeds is left out."""
    stored: dict[str, list[Record]] = {}
    for file in sorted(results.glob("*-seed-*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        stored.setdefault(record["condition"], []).append(record)
    complete = {name: sorted(records, key=lambda record: record["seed"]) for name, records in stored.items()}
    return {name: rows for name, rows in complete.items() if tuple(row["seed"] for row in rows) == SEEDS}


def paired(first: Record, second: Record, reading: str, level: int | None = None) -> FloatArray:
    """Return first less second for every problem that both models solve.

    Args:
        first: record of a model.
        second: of another one, on the same problems.
        reading: name of a reading.
        level: of the problems; None = all.
    """
    assert first["questions"] == second["questions"]
    both = np.array(first["solved"]) & np.array(second["solved"])
    if level is not None:
        both &= np.array(first["k"]) == level
    values = _numbers(first[reading]) - _numbers(second[reading])
    return values[both & np.isfinite(values)]


def difference(stored: Stored, claim: Claim, reading: str, level: int | None = None) -> Difference | None:
    """Return the difference that a claim is about, read by one reading; None where a condition is not stored.

    Args:
        stored: of ``load_stored``.
        claim: names the two conditions.
        reading: name of a reading.
        level: of the problems; None = all.
    """
    if not {claim.first, claim.second} <= stored.keys():
        return None
    pairs = list(zip(stored[claim.first], stored[claim.second]))
    by_problem = [paired(first, second, reading, level) for first, second in pairs]
    learned = [min(np.mean(record["solved"]) for record in pair) >= LEAST_SOLVED for pair in pairs]
    least = LEAST_PROBLEMS if level is None else 5
    enough = [is_learned and values.size >= least for is_learned, values in zip(learned, by_problem)]
    by_seed = [float(values.mean()) if is_enough else math.nan for values, is_enough in zip(by_problem, enough)]
    null = untrained_differences(*pairs[0], reading, level)
    excess = apart(by_seed, null) if all(math.isfinite(value) for value in by_seed) else {}
    return Difference(
        by_seed,
        [int(values.size) for values in by_problem],
        over_models(by_seed),
        over_models(null),
        Interval(*(float(excess.get(end, math.nan)) for end in ("mean", "low", "high"))),
    )


def untrained_differences(first: Record, second: Record, reading: str, level: int | None = None) -> list[float]:
    """Return first less second for each untrained model, mean over all problems.

    Untrained models are made from seeds of their own, so that the same ones stand next to every seed.
    """
    chosen = np.array([level is None or k == level for k in first["k"]])
    rows = zip(first["untrained"][reading], second["untrained"][reading])
    return [float(np.nanmean((_numbers(one) - _numbers(other))[chosen])) for one, other in rows]


def between_seeds(records: Sequence[Record], reading: str) -> list[float]:
    """Return the size of the paired difference of every two seeds of one condition: what chance of training makes."""
    pairs = itertools.combinations(records, 2)
    return [abs(float(paired(first, second, reading).mean())) for first, second in pairs]


def over_models(values: Sequence[float]) -> Interval:
    """Return the mean with Student's interval; all NaN where a value is missing."""
    if not all(math.isfinite(value) for value in values):
        return Interval(math.nan, math.nan, math.nan)
    row = said(xr.DataArray(list(values), dims="seed"))
    return Interval(row["mean"], row["low"], row["high"])


def decide(interval: Interval, bound: float = BOUND) -> str:
    """Return what follows from an interval and the equivalence bound, both in blocks."""
    _, low, high = interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return UNDECIDED
    if -bound < low and high < bound:
        return "less than the bound apart"
    if high < -bound:
        return "shallower by more than the bound"
    if low > bound:
        return "deeper by more than the bound"
    if high < 0:
        return "shallower, by how much is open"
    return "deeper, by how much is open" if low > 0 else UNDECIDED


def decisions(stored: Stored) -> dict[str, str]:
    """Return the decision on every claim, by its key; claims that are not measured are left out."""
    measured = {claim.key: difference(stored, claim, PRIMARY) for claim in CLAIMS}
    return {key: decide(result.trained) for key, result in measured.items() if result is not None}


def _numbers(values: Sequence[float | None]) -> FloatArray:
    return np.array([math.nan if value is None else value for value in values], np.float64)
