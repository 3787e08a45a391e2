"""What the claims that are not decided ask for: prompts and CPU hours, by the widths that their intervals have now."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import xarray as xr

from studies.real_model.claims import Claim
from studies.real_model.judged import Row, Stored, describe_reading
from studies.real_model.models import ModelKey
from studies.real_model.reading import QUANTITIES, Reading, decide, rounded_by

MANY: Final = 1_000_000
"""Prompts from which a number is not written out."""
_HOUR: Final = 3600.0


class Asked(NamedTuple):
    """What deciding a claim asks for.

    Args:
        prompts: that it was read from, of the survey with the fewest.
        needed: prompts of that survey that the decision asks for; infinity where no number is enough.
        hours: CPU hours of the model's prompts that are missing, one thread, in all surveys of the claim.
    """

    prompts: int
    needed: float
    hours: float


def times_more(claim: Claim, reading: Reading, rounding: float = 0.0) -> float:
    """How many times as many prompts decide a claim, if its value stays and its interval narrows with their root.

    Args:
        claim: with its bound.
        reading: the value and its interval, which crosses the bound.
        rounding: how far the interval reaches however many prompts there are.

    Returns:
        The factor; infinity where the value lies no further from the bound than ``rounding``.
    """
    above, below = reading.high - reading.value, reading.value - reading.low
    inside = claim.low <= reading.value <= claim.high
    # the interval must leave the bound on this side, or on both
    sides = [(above, claim.high - reading.value), (below, reading.value - claim.low)]
    if not inside:
        sides = (
            [(below, reading.value - claim.high)]
            if reading.value > claim.high
            else [(above, claim.low - reading.value)]
        )
    factors = []
    for width, room in sides:
        if width > room:
            factors.append(((width - rounding) / (room - rounding)) ** 2 if room > rounding else math.inf)
    return max(factors)


def asked_for(row: Row, surveys: Mapping[str, xr.Dataset]) -> Asked | None:
    """What a claim's decision asks for; None where it is decided, undefined or not measured."""
    reading = row.by_model.get(row.real.key)
    if reading is None or not math.isfinite(reading.value) or decide(row.claim, reading) != "cannot be decided":
        return None
    data = [surveys[job] for job in QUANTITIES[row.claim.key][0]]
    factor = times_more(row.claim, reading, rounded_by(row.claim.key, data))
    prompts = min(one.sizes["prompt"] for one in data if "prompt" in one.sizes)
    seconds = sum(float(one.attrs["cpu_seconds"]) for one in data)
    needed = math.ceil(prompts * factor) if math.isfinite(factor) else math.inf
    return Asked(prompts, needed, seconds * (factor - 1) / _HOUR)


def decisions_table(rows: Mapping[ModelKey, list[Row]], stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    """Every claim that is not decided, with what its decision asks for."""
    listed = [
        (row, asked)
        for key, of_model in rows.items()
        for row, asked in sorted(
            ((row, asked_for(row, stored.get(key, {}).get(key, {}))) for row in of_model),
            key=lambda pair: pair[1].hours if pair[1] else 0.0,
        )
        if asked is not None
    ]
    if not listed:
        return
    yield "Claims that are not decided, by model, and what a decision asks for:"
    yield ""
    yield "| claim | model | bound | measured | prompts | prompts that would decide | CPU hours more |"
    yield "|---|---|---|---|---|---|---|"
    for row, asked in listed:
        reading = describe_reading(row.by_model[row.real.key])
        cells = [row.claim.text, row.real.short, row.claim.bound, reading, f"{asked.prompts}"]
        yield f"| {' | '.join([*cells, _prompts(asked.needed), _hours(asked.hours)])} |"
    yield ""
    yield (
        "The prompts are those of the survey with the fewest, if the value stays where it is and the interval narrows "
        "with the root of their number; CPU hours are those of the model alone, with one thread. A value that lies "
        "near its bound asks for many, and then a decision would say little. The intervals of this page do not allow "
        "for growing until decided: one that is looked at again and again misses its value more often than it says "
        "([how much more](instruments.md#surveying-until-sure)), so that the number of prompts has to be fixed before."
    )
    yield ""


def _prompts(needed: float) -> str:
    if not math.isfinite(needed):
        return "no number is enough: its blocks are coarser than its distance from the bound"
    return f"more than {MANY:,}" if needed > MANY else f"{needed:,}"


def _hours(hours: float) -> str:
    if not math.isfinite(hours):
        return "–"
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else "under 0.1"
