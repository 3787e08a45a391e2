"""Plain forwards of a model and of the same under a schedule, timed in turn on this machine."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

import torch

from bathyscope.core.progress import ProgressBar
from bathyscope.model import Model
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.schedule import Schedule
from bathyscope.surgery.scheduled.running import scheduled
from bathyscope.surgery.scheduled.speed import Speeds

_REPEATS: Final = 5


def measure_speeds(
    model: Model,
    schedule: Schedule,
    ids: Sequence[int],
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: bool = False,
) -> Speeds:
    """Time forwards of the full model and under a schedule in turn, so that a busy machine slows both.

    Raises:
        ModelError: the model cannot run the schedule.
    """
    before, after = [], []
    with ProgressBar("timing before and after", 2 * _REPEATS, quiet=not progress) as bar:
        for repeat in range(_REPEATS):
            before.append(_time_forward(model, ids, clock))
            with scheduled(model, schedule):
                after.append(_time_forward(model, ids, clock))
            bar.advance_to(2 * (repeat + 1))
    ratios = [first / second for first, second in zip(before, after)]
    return Speeds(
        before=len(ids) / median(before),
        after=len(ids) / median(after),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        tokens=len(ids),
        repeats=_REPEATS,
    )


@torch.no_grad()
def _time_forward(model: Model, ids: Sequence[int], clock: Callable[[], float]) -> float:
    hf: Any = model.hf
    ids_BT = torch.tensor([list(ids)], device=model.device)
    with evaluating(hf):
        began = clock()
        hf(ids_BT, use_cache=False)
        if model.device.type != "cpu":
            torch.accelerator.synchronize(model.device)
        # A clock may be coarser than the forward of a tiny model.
        return max(clock() - began, 1e-9)
