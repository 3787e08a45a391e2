"""Does looking at intervals until they are narrow cost them their coverage? A simulation on real readings.

The readings of real prompts are the population. Prompts are drawn from it with replacement and offered in batches, as
``survey(until=…)`` does; what it stops with is compared with the readings of the whole population, and with forty
prompts fixed. Readings, their intervals and the decision to stop are those of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bathyscope.runs.kept import KeptReading
from bathyscope.runs.readings import DepthReading
from bathyscope.surveying.until import Goal

NAMES: Final = ("half", "readable", "own")
FIXED: Final = 40
WIDTHS: Final = (0.5, 0.25)


@dataclass(frozen=True)
class Readings:
    """The readings that decide a verdict, of some prompts; all that a goal looks at.

    Args:
        half: of the tokens of all prompts together.
        readable, own: means over prompts.
    """

    half: KeptReading
    readable: DepthReading
    own: DepthReading

    @classmethod
    def of_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the readings of all prompts of what ``read_prompts`` gives."""
        n_blocks = stored["n_blocks"]
        shares, tokens = (np.array(stored[name], dtype=np.float64) for name in ("shares", "tokens"))
        # of single prompts, which no goal looks at, this reading needs no depth
        half = KeptReading("half", np.full(len(tokens), np.nan), n_blocks, shares=shares, tokens=tokens, quantile=0.5)
        means = {
            name: DepthReading(name, np.array(by_prompt, dtype=np.float64), n_blocks)
            for name, by_prompt in stored["readings"].items()
        }
        return cls(half, means["readable"], means["own"])

    @property
    def prompts(self) -> int:
        """How many there are."""
        return len(self.own.by_prompt)

    @property
    def values(self) -> NDArray[np.float64]:
        """[3], in the order of ``NAMES``."""
        return np.array([reading.value for reading in self._all])

    @property
    def intervals(self) -> NDArray[np.float64]:
        """[3, 2], low and high."""
        return np.array([reading.interval for reading in self._all])

    @property
    def _all(self) -> list[DepthReading]:
        return [getattr(self, name) for name in NAMES]

    def take(self, places: NDArray[np.int64], seed: int) -> Self:
        """Return the readings of the prompts at some places, a prompt as often as it is named.

        Args:
            seed: of their intervals.
        """
        readable, own = (
            replace(reading, by_prompt=reading.by_prompt[places], seed=seed) for reading in (self.readable, self.own)
        )
        half = replace(
            self.half,
            by_prompt=self.half.by_prompt[places],
            shares=self.half.shares[places],
            tokens=self.half.tokens[places],
            seed=seed,
        )
        return replace(self, half=half, readable=readable, own=own)


@dataclass(frozen=True)
class Simulation:
    """How often, and of how many prompts.

    Args:
        draws: of a whole survey.
        offered: prompts of each.
        seed: of drawing.
    """

    draws: int = 400
    offered: int = 200
    seed: int = 0

    def run(self, population: Readings, width: float) -> dict[str, Any]:
        """Return coverage, prompts used and how often the goal was reached, next to a fixed number of prompts."""
        truth = population.values
        goal, rng = Goal(width), np.random.default_rng(self.seed)
        used, reached, covers, within = [], [], [], []
        fixed_covers, fixed_reached = [], []
        for draw in range(self.draws):
            places = rng.integers(population.prompts, size=self.offered)
            for count in goal.batches(self.offered):
                readings = population.take(places[:count], draw)
                is_sure = goal.is_sure(readings, count, self.offered)
                if is_sure:
                    break
            used.append(count)
            reached.append(is_sure)
            covers.append(_covers(readings, truth))
            within.append(np.abs(readings.values - truth) <= width)
            fixed = population.take(places[:FIXED], draw)
            fixed_covers.append(_covers(fixed, truth))
            fixed_reached.append(goal.is_reached(fixed))
        return {
            "width": width,
            "prompts": float(np.mean(used)),
            "prompts_p10_p90": np.quantile(used, [0.1, 0.9]).tolist(),
            "reached": float(np.mean(reached)),
            "fixed_reached": float(np.mean(fixed_reached)),
            # where the goal is not reached, the verdict's interval is wider than the width, and is what counts
            **_coverage("within", np.where(np.array(reached)[:, None], np.array(within), np.array(covers))),
            **_coverage("coverage", np.array(covers)),
            **_coverage("fixed_coverage", np.array(fixed_covers)),
        }


def _covers(readings: Readings, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return of each reading whether its interval holds the truth."""
    low, high = readings.intervals.T
    return np.asarray((low <= truth) & (truth <= high))


def _coverage(title: str, covers: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the share of intervals that hold the truth, by reading, each with Wilson's interval."""
    values: dict[str, Any] = {}
    for name, column in zip(NAMES, covers.T):
        interval = stats.binomtest(int(column.sum()), len(column)).proportion_ci(method="wilson")
        values[f"{title}_{name}"] = [float(column.mean()), float(interval.low), float(interval.high)]
    return values


def simulate_all(name: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the simulation for every width of ``WIDTHS``.

    Args:
        stored: what ``read_prompts`` gives.
    """
    population = Readings.of_stored(stored)
    rows = [Simulation().run(population, width) for width in WIDTHS]
    return {"model": name, "population": population.prompts, "n_blocks": stored["n_blocks"], "rows": rows}
