"""Survey until sure: prompts are surveyed in order, in growing batches, until the verdict's readings are known.

After each batch the run has grown (``runs.growth``), so that nothing is computed twice and the run that is left is the
one that the same prompts asked for at once would give. Looking at intervals again and again, and stopping at a narrow
one, costs them coverage; how much, and why ``FIRST`` is not smaller: docs/design/intervals.md.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bathyscope.errors import OptionError
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.run import Run
from bathyscope.runs.verdict import Verdict

FIRST: Final = 10
"""Prompts of the first batch: with fewer, an interval is narrow by chance too often."""
_GROWTH: Final = 1.5
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}
NEEDED: Final = ("lens", "skip")
"""The measures that the readings are of."""


@dataclass(frozen=True)
class Goal:
    """When a survey has enough prompts.

    Args:
        width: blocks by which each end of an interval may be away from its reading.
        budget: seconds after which no further batch is begun; None = no limit.
    """

    width: float
    budget: float | None = None

    def batches(self, prompts: int, done: int = 0) -> Iterator[int]:
        """Yield how many prompts the run has after each batch.

        Args:
            prompts: how many are offered.
            done: how many the run in the folder has already; it is looked at first.
        """
        count = FIRST
        if done:
            yield min(done, prompts)
        while count < prompts:
            if count > done:
                yield count
            count = round(count * _GROWTH)
        if prompts > done:
            yield prompts

    def is_reached(self, verdict: Verdict) -> bool:
        """Return whether both readings have intervals, and those are narrow enough."""
        readings = (verdict.readable, verdict.own)
        return all(max(r.high - r.value, r.value - r.low) <= self.width for r in readings)

    def run(self, prompts: Prompts, survey: Callable[[Prompts], Run], done: int = 0) -> tuple[Run, str]:
        """Survey more and more of some prompts; return the last run, and why there is no larger one.

        Args:
            survey: lets the run in the folder grow to these prompts.
            done: how many it has already.
        """
        began = time.monotonic()
        offered = len(prompts)
        for count in self.batches(offered, done):
            run = survey(prompts.some(range(count)))
            if self.is_reached(run.verdict):
                return run, f"With {count} of {offered} prompts both readings are known within {self}."
            if self.budget is not None and count < offered and time.monotonic() - began >= self.budget:
                time_given = f"{self.budget:.0f} s"
                return (
                    run,
                    f"The budget of {time_given} ended at {count} of {offered} prompts, before {self} was reached.",
                )
        return run, f"All {offered} prompts are too few to know both readings within {self}."

    def __str__(self) -> str:
        return f"±{self.width:g} blocks"


def seconds_of(budget: str | float) -> float:
    """Return a budget of time in seconds: 90, ``90s``, ``10min`` or ``2h``.

    Raises:
        OptionError: no such time, or none at all.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", str(budget))
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if not seconds > 0:
        raise OptionError(f"budget={budget!r} is no time. Give seconds, or a text such as 90s, 10min or 2h.")
    return seconds
