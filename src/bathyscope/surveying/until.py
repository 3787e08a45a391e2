"""Survey until sure: prompts are surveyed in order, in growing batches, until the verdict's readings are known.

After each batch the run has grown (``runs.growth``), so that nothing is computed twice and the run that is left is the
one that the same prompts asked for at once would give. Looking at intervals again and again, and stopping at the first
narrow one, costs coverage, so that a narrow interval has to be narrow at the batch before too. What is known then is
the reading ± the width that was asked for; how often that holds: docs/instruments.md.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, isnan, nan
from typing import Any, Final, Protocol

from bathyscope.errors import OptionError, PromptError, describe_value
from bathyscope.prompts.prompts import Prompts, count_repeats
from bathyscope.runs.readings import DepthReading
from bathyscope.runs.run import Run

FIRST: Final = 10
"""Prompts of the first batch: with fewer, an interval is narrow by chance too often."""
_GROWTH: Final = 1.5
_WHOLE_SECONDS: Final = 100
"""Seconds from which a budget is written without decimals."""
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}
NEEDED: Final = ("lens", "skip")
"""The measures that the readings are of."""


class DecidingReadings(Protocol):
    """The readings that decide a verdict, as a verdict has them."""

    @property
    def half(self) -> DepthReading:
        """The depth from which half of the tokens keep their prediction, which heads the run."""

    @property
    def readable(self) -> DepthReading:
        """The boundary after which the top-1 token no longer changes."""

    @property
    def own(self) -> DepthReading:
        """Blocks until most of the effect of leaving out one block."""


@dataclass(frozen=True)
class Ending:
    """Why a survey until it is sure ended, and what its prompts tell.

    Args:
        width: blocks that were asked for.
        reach: how far the ends of the intervals reach from their readings, at most; NaN where one has no interval.
        prompts: of the run.
        offered: prompts that there were.
        reached: whether the readings are known within the width.
        budget: seconds that ended it; None = something else did.
    """

    width: float
    reach: float
    prompts: int
    offered: int
    reached: bool
    budget: float | None = None

    @property
    def text(self) -> str:
        """One sentence."""
        if self.reached:
            return (
                f"With {self.prompts} of {self.offered} prompts all readings are known within ±{self.width:g} "
                f"blocks, as "
                "was asked."
            )
        result_text, missing = "the readings have no intervals", ""
        if not isnan(self.reach):
            result_text = f"all readings are known within ±{self._reach_text} blocks"
        if self.reach <= self.width:
            # narrow enough here, so that it is the batch before that was not, or that there was none
            missing = " with two batches in a row"
            result_text += "; one narrow interval may be luck"
        if self.budget is not None:
            seconds = f"{self.budget:.3g}" if self.budget < _WHOLE_SECONDS else f"{self.budget:.0f}"
            why = f"the budget of {seconds} s ended at {self.prompts} of {self.offered} prompts, where"
        else:
            why = "with the only prompt" if self.offered == 1 else f"with all {self.offered} prompts"
        return f"±{self.width:g} blocks was not reached{missing}: {why} {result_text}."

    @property
    def _reach_text(self) -> str:
        """The reach rounded up, with as many digits as show on which side of the width it lies."""
        for digits in range(2, 10):
            rounded_up = max(ceil(10**digits * self.reach), 1) / 10**digits
            if (rounded_up <= self.width) == (self.reach <= self.width):
                break
        return f"{rounded_up:.{digits}f}"

    def record(self) -> dict[str, Any]:
        """Return it as a run's record holds it."""
        return {
            "width": self.width,
            "reach": None if isnan(self.reach) else self.reach,
            "prompts": self.prompts,
            "offered": self.offered,
            "reached": self.reached,
            "text": self.text,
        }


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

    def is_reached(self, verdict: DecidingReadings, count: int | None = None) -> bool:
        """Return whether all three readings have intervals, and those are narrow enough.

        Args:
            count: of the first prompts that are looked at; None = all.
        """
        return known_within(verdict, count) <= self.width

    def is_sure(self, verdict: DecidingReadings, count: int, offered: int) -> bool:
        """Return whether a survey of ``count`` of the ``offered`` prompts may end with them.

        Intervals are narrow enough with the batch before, too: a single narrow one may be luck, and is picked out where
        a survey ends with the first. All prompts that are offered are nobody's choice, and need no second look.
        """
        if not self.is_reached(verdict):
            return False
        earlier = max((size for size in self.batches(offered) if size < count), default=0)
        return count == offered or (earlier > 0 and self.is_reached(verdict, earlier))

    def run(self, prompts: Prompts, survey: Callable[[Prompts], Run], done: int = 0) -> tuple[Run, Ending]:
        """Survey more and more of some prompts; return the last run, and why there is no larger one.

        Args:
            survey: lets the run in the folder grow to these prompts.
            done: how many it has already.

        Raises:
            PromptError: prompts that repeat others, which tell nothing more.
        """
        began = time.monotonic()
        offered = len(prompts)
        repeats = count_repeats(prompts)
        if repeats:
            raise PromptError(
                f"{repeats} of {offered} prompts have the tokens of others, which tell until nothing more. Give each "
                "prompt once, or leave until out."
            )
        for count in self.batches(offered, done):
            run = survey(prompts.some(range(count)))
            verdict = run.verdict
            ending = Ending(self.width, known_within(verdict), count, offered, self.is_sure(verdict, count, offered))
            if ending.reached:
                return run, ending
            if self.budget is not None and count < offered and time.monotonic() - began >= self.budget:
                return run, replace(ending, budget=self.budget)
        return run, ending


def known_within(verdict: DecidingReadings, count: int | None = None) -> float:
    """Return how many blocks the ends of the readings' intervals are away from them, at most; NaN where one has none.

    Args:
        count: of the first prompts that are looked at; None = all.
    """
    readings = [_first_of(reading, count) for reading in (verdict.half, verdict.readable, verdict.own)]
    reaches = [reach for r in readings for reach in (r.high - r.value, r.value - r.low)]
    return nan if any(map(isnan, reaches)) else float(max(reaches))


def _first_of(reading: DepthReading, count: int | None) -> DepthReading:
    """Return a reading of the first prompts alone."""
    return reading if count is None else reading.of_first(count)


def seconds_of(budget: str | float) -> float:
    """Return a budget of time in seconds: 90, ``90s``, ``10min`` or ``2h``.

    Raises:
        OptionError: no such time, or none at all.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", str(budget))
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if not seconds > 0:
        raise OptionError(
            f"budget={describe_value(budget)} is no time. Give seconds, or a text such as 90s, 10min or 2h."
        )
    return seconds
