"""How often intervals of a block's cost hold the truth, on costs of real models that are stored prompt by prompt.

    python benchmarks/cost_coverage.py

A population is the prompts of one model and text whose costs are in ``results/drop_costs.json``: nats that leaving out
each block adds. Prompts are drawn from it with replacement; the truth is the mean over all of it.
docs/design/intervals.md records the outcome.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, mean_intervals
from bathyscope.statistics.rare import outward_mean_intervals
from bathyscope.statistics.sampling import Sampling

STORED: Final = Path(__file__).parent / "results" / "drop_costs.json"
IDLE: Final = 0.01
"""Nats below which the cost of a block is idle, as in ``surveying/training/steps.py``."""
SIZES: Final = (4, 8, 12, 20, 24, 40)
RESAMPLES: Final = 200
Intervals = Callable[[FloatArray, Sampling], list[Interval]]


def populations() -> dict[str, FloatArray]:
    """Return name → costs, [prompts, blocks], in nats."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return {name: np.asarray(rows, np.float64) for name, rows in stored.items()}


def drawn_ends(costs_PL: FloatArray, size: int, draws: int, level: float, intervals: Intervals) -> FloatArray:
    """Return both ends of every block's interval, [draws, blocks, 2], of so many prompts each."""
    rng = np.random.default_rng([size, len(costs_PL)])
    ends = [
        intervals(costs_PL[rng.integers(len(costs_PL), size=size)], Sampling(RESAMPLES, level, seed=draw))
        for draw in range(draws)
    ]
    return np.asarray(ends, np.float64)


def coverage(costs_PL: FloatArray, size: int, draws: int, intervals: Intervals) -> tuple[float, float, float]:
    """Return the shares of 95 % intervals that hold the truth, of all blocks and of the worst, and its misses above."""
    ends = drawn_ends(costs_PL, size, draws, 0.95, intervals)
    truth = costs_PL.mean(axis=0)
    above = (ends[..., 1] < truth).mean(axis=0)
    held = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)
    worst = int(held.argmin())
    return float(held.mean()), float(held[worst]), float(above[worst])


def called_idle(costs_PL: FloatArray, size: int, draws: int, intervals: Intervals) -> float:
    """Return the largest share of draws in which a block that is not idle is called so; NaN where all are idle."""
    ends = drawn_ends(costs_PL, size, draws, 0.9, intervals)
    wrong = ((ends[..., 0] > -IDLE) & (ends[..., 1] < IDLE)).mean(axis=0)[np.abs(costs_PL.mean(axis=0)) >= IDLE]
    return float(wrong.max()) if wrong.size else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--prompts", type=int, nargs="+", default=list(SIZES))
    options = parser.parse_args()
    kinds: dict[str, Intervals] = {"plain": mean_intervals, "outward": outward_mean_intervals}
    print("| population | prompts | plain (worst block; truth above) | outward | idle, plain | idle, outward |")
    print("|---|---:|---|---|---:|---:|")
    for name, costs_PL in populations().items():
        for size in options.prompts:
            cells = []
            for intervals in kinds.values():
                held, worst, above = coverage(costs_PL, size, options.draws, intervals)
                cells.append(f"{100 * held:.0f} ({100 * worst:.0f}; {100 * above:.0f})")
            cells += [f"{100 * called_idle(costs_PL, size, options.draws, kind):.0f}" for kind in kinds.values()]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
