"""Which measure is right about which planted model, and which one is fooled by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bathyscope.lab.planted.backup import BACKED_UP
from bathyscope.lab.planted.blocks import block_readings
from bathyscope.lab.planted.busy import BUSY
from bathyscope.lab.planted.construction import Construction, Verdict
from bathyscope.lab.planted.depths import depth_readings
from bathyscope.lab.planted.detour import DETOUR
from bathyscope.lab.planted.idle import DOUBLED_BETWEEN, IDENTITY, LATE
from bathyscope.lab.planted.near_identity import NEAR_IDENTITY
from bathyscope.lab.planted.reading import Reading, Value, verdict
from bathyscope.lab.planted.relay import RELAY
from bathyscope.lab.planted.rescaling import RESCALING
from bathyscope.lab.planted.rotated import ROTATED
from bathyscope.lab.planted.shared_weights import SHARED_WEIGHTS
from bathyscope.lab.planted.sink import SINK
from bathyscope.lab.planted.surveyed import surveyed
from bathyscope.lab.planted.truth import Truth
from bathyscope.lab.planted.unread import UNREAD
from bathyscope.store.run import Run

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
