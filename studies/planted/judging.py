"""Which measure is right about which planted model, and which one is fooled by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bathyscope import Run
from studies.planted.backup import BACKED_UP
from studies.planted.blocks import block_readings
from studies.planted.busy import BUSY
from studies.planted.construction import Construction, Verdict
from studies.planted.depths import depth_readings
from studies.planted.detour import DETOUR
from studies.planted.either import EITHER
from studies.planted.idle import DOUBLED_BETWEEN, IDENTITY, LATE
from studies.planted.mixture import MIXTURE
from studies.planted.near_identity import NEAR_IDENTITY
from studies.planted.reading import Reading, Value, verdict
from studies.planted.relay import RELAY
from studies.planted.rescaling import RESCALING
from studies.planted.rotated import ROTATED
from studies.planted.shared_weights import SHARED_WEIGHTS
from studies.planted.sink import SINK
from studies.planted.surveyed import surveyed
from studies.planted.truth import Truth
from studies.planted.unread import UNREAD
from studies.planted.unused_copy import UNUSED_COPY

CONSTRUCTIONS: Mapping[str, Construction] = {
    construction.name: construction
    for construction in (
        IDENTITY,
        DOUBLED_BETWEEN,
        LATE,
        DETOUR,
        NEAR_IDENTITY,
        RESCALING,
        UNREAD,
        BUSY,
        RELAY,
        ROTATED,
        SHARED_WEIGHTS,
        BACKED_UP,
        SINK,
        UNUSED_COPY,
        EITHER,
        MIXTURE,
    )
}
READINGS: Mapping[str, Reading] = {reading.name: reading for reading in (*depth_readings(), *block_readings())}


@dataclass(frozen=True)
class Cell:
    """What one measure says of one planted model, what it should say, and what that makes it."""

    said: Value
    true: Value
    verdict: Verdict


def judge(run: Run, truth: Truth) -> dict[str, Cell]:
    """Every reading of a planted model's run against the truth, in the order of ``READINGS``."""
    found = {}
    for name, reading in READINGS.items():
        said, true = reading.of_run(run), reading.of_truth(truth)
        found[name] = Cell(said, true, verdict(said, true))
    return found


def table(constructions: Iterable[Construction] = CONSTRUCTIONS.values()) -> dict[str, dict[str, Cell]]:
    """Surveys planted models (a second or two each) and judges every measure on them: construction → measure → cell."""
    return {one.name: judge(surveyed(one), one.truth) for one in constructions}
