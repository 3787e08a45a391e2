"""Blocks dropped one by one, the cheapest first, and the ladder of repairs of what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bathyscope import Model, Schedule, load
from bathyscope.extend.prompts import tokenized
from bathyscope.extend.statistics import Sampling
from bathyscope.surgery.repairing.healing import Budget
from bathyscope.surgery.repairing.ladder import climb_ladder
from bathyscope.surgery.repairing.rungs import losses
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.surgery.trial.trial import read_trial

_CHOSEN_ON = 8
"""Calibration prompts that blocks are chosen by: 57 candidates of a 12-block model are run on them."""


def repairing(
    model: str, calibration: str, test: str, shares: Sequence[float], minutes: float, out: Path, progress: bool
) -> Iterator[dict[str, Any]]:
    """The ladder at every share of dropped blocks.

    Args:
        shares: of the blocks, rounded to whole blocks.
        minutes: of processor time that each healing takes.
        out: folder in which trainings are kept, to be gone on from.

    Yields:
        For every share the schedule and the rungs, as ``Rung`` has them.
    """
    whole = load(model, dtype="float32")
    trial = read_trial(whole, test, calibration, sampling=Sampling())
    wanted = [round(share * whole.n_blocks) for share in shares]
    known = list(tokenized(whole, calibration))[:_CHOSEN_ON]
    schedules = cheapest(whole, [list(prompt.ids) for prompt in known], max(wanted))
    for count in wanted:
        chosen = schedules[count]
        repaired = climb_ladder(
            replace(trial, folder=out / f"healing-{count}"),
            chosen,
            "heal",
            budget=Budget(minutes=minutes),
            progress=progress,
            clock=time.process_time,
        )
        yield {
            "model": model,
            "schedule": str(chosen),
            "order": list(chosen.order),
            "calibration": calibration,
            "test": test,
            "minutes": minutes,
            "rungs": repaired.table,
        }


def cheapest(model: Model, prompts: Sequence[Sequence[int]], most: int) -> list[Schedule]:
    """Schedules without 0, 1, … ``most`` blocks: each leaves out one more, which costs least. Source: SLEB."""
    found = [Schedule.standard(model.n_blocks)]
    for _ in range(most):
        candidates = [found[-1].drop(block) for block in found[-1]]
        costs = [losses(ScheduledCopy(model.hf, one, model.anatomy.family).hf, prompts).mean() for one in candidates]
        found.append(candidates[costs.index(min(costs))])
    return found
