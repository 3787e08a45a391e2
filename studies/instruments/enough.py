"""Does looking at intervals until they are narrow cost them their coverage? A simulation on real readings.

The readings of real prompts are the population. Prompts are drawn from it with replacement and offered in batches, as
``survey(until=…)`` does; what it stops with is compared with the population's mean, and with forty prompts fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bathyscope.runs.readings import DepthReading
from bathyscope.surveying.until import Goal

NAMES: Final = ("readable", "own")
FIXED: Final = 40
WIDTHS: Final = (0.5, 0.25)


class Pair(NamedTuple):
    """Both readings that decide a verdict; all that a goal looks at."""

    readable: DepthReading
    own: DepthReading

    @property
    def half(self) -> DepthReading:
        """Populations are of readings by prompt, which tell nothing of single tokens: the mean stands for the half."""
        return self.readable


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

    def run(self, readings: Mapping[str, Sequence[float]], n_blocks: int, width: float) -> dict[str, Any]:
        """Return coverage, prompts used and how often the goal was reached, next to a fixed number of prompts."""
        population = np.array([readings[name] for name in NAMES], dtype=np.float64)
        truth = population.mean(1)
        goal, rng = Goal(width), np.random.default_rng(self.seed)
        used, reached, covers, within = [], [], [], []
        fixed_covers, fixed_reached = [], []
        for draw in range(self.draws):
            sample = population[:, rng.integers(population.shape[1], size=self.offered)]
            for count in goal.batches(self.offered):
                readings_there = read(sample[:, :count], n_blocks, draw)
                is_sure = goal.is_sure(readings_there, count, self.offered)
                if is_sure:
                    break
            used.append(count)
            reached.append(is_sure)
            covers.append(_covers(readings_there, truth))
            within.append(_within(readings_there, truth, width))
            fixed = read(sample[:, :FIXED], n_blocks, draw)
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


def read(values: NDArray[np.float64], n_blocks: int, seed: int) -> Pair:
    """Return the readings of some prompts, [2, prompts], with intervals as a run has them."""
    return Pair(*(DepthReading(name, by_prompt, n_blocks, seed) for name, by_prompt in zip(NAMES, values)))


def _covers(readings: Pair, truth: NDArray[np.float64]) -> list[bool]:
    pairs = zip((readings.readable, readings.own), truth)
    return [reading.low <= value <= reading.high for reading, value in pairs]


def _within(readings: Pair, truth: NDArray[np.float64], width: float) -> list[bool]:
    pairs = zip((readings.readable, readings.own), truth)
    return [abs(reading.value - value) <= width for reading, value in pairs]


def _coverage(title: str, covers: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the share of intervals that hold the truth, by reading, each with Wilson's interval."""
    values: dict[str, Any] = {}
    for name, column in zip(NAMES, covers.T):
        interval = stats.binomtest(int(column.sum()), len(column)).proportion_ci(method="wilson")
        values[f"{title}_{name}"] = [float(column.mean()), float(interval.low), float(interval.high)]
    return values


def simulate_all(name: str, readings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the simulation for every width of ``WIDTHS``.

    Args:
        readings: what ``read_prompts`` gives.
    """
    by_name, n_blocks = readings["readings"], readings["n_blocks"]
    rows = [Simulation().run(by_name, n_blocks, width) for width in WIDTHS]
    return {"model": name, "population": len(by_name["own"]), "n_blocks": n_blocks, "rows": rows}
