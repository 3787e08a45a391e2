"""Blocks dropped one by one, the cheapest first, and the ladder of repairs of what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bathyscope import Model, Schedule, load, repair, scheduled
from bathyscope.extend.prompts import tokenized
from studies.common.losses import mean_losses

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
    wanted = [round(share * whole.n_blocks) for share in shares]
    known = list(tokenized(whole, calibration))[:_CHOSEN_ON]
    schedules = cheapest(whole, [list(prompt.ids) for prompt in known], max(wanted))
    for count in wanted:
        chosen = schedules[count]
        repaired = repair(
            whole,
            chosen,
            calibration,
            test=test,
            how="heal",
            minutes=minutes,
            clock=time.process_time,
            state=out / f"healing-{count}",
            progress=progress,
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
        costs = []
        for one in candidates:
            with scheduled(model, one) as hf:
                costs.append(mean_losses(hf, prompts).mean())
        found.append(candidates[costs.index(min(costs))])
    return found
