"""How often intervals of a block's cost hold the truth, on costs of real models that are stored prompt by prompt.

    python benchmarks/cost_coverage.py [--bounds]

A population is the prompts of one model and text whose costs are in ``results/drop_costs.json``: nats that leaving out
each block adds. Prompts are drawn from it with replacement; the truth is the mean over all of it.
docs/design/intervals.md records the outcome.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, mean_intervals
from bathyscope.statistics.rare import bounded_intervals, carried_by_few, outward_mean_intervals
from bathyscope.statistics.sampling import Sampling

STORED: Final = Path(__file__).parent / "results" / "drop_costs.json"
IDLE: Final = 0.01
"""Nats below which the cost of a block is idle, as in ``surveying/training/idle_blocks.py``."""
SIZES: Final = (4, 8, 12, 20, 24, 40)
RESAMPLES: Final = 200
BOUNDS: Final = (
    "plain hold",
    "given",
    "of these hold",
    "given and wrong, worst block",
    "chosen: plain too low",
    "chosen: given",
    "chosen: given and too low",
)
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


def bounded(costs_PL: FloatArray, sampling: Sampling) -> list[Interval]:
    """Return the intervals of costs that pages print; NaN where they give none."""
    plain = mean_intervals(costs_PL, sampling)
    return bounded_intervals(plain, carried_by_few(costs_PL), costs_PL, sampling)


def given_coverage(costs_PL: FloatArray, size: int, draws: int) -> tuple[float, float, float]:
    """Return the share of intervals that are given, the share of those that hold, and of draws in which one misses.

    The last is of the worst block.
    """
    ends = drawn_ends(costs_PL, size, draws, 0.95, bounded)
    truth = costs_PL.mean(axis=0)
    is_given = ~np.isnan(ends[..., 0])
    held = is_given & (ends[..., 0] <= truth) & (truth <= ends[..., 1])
    share = float(held.sum() / is_given.sum()) if is_given.any() else np.nan
    return float(is_given.mean()), share, float((is_given & ~held).mean(axis=0).max())


def chosen_too_low(costs_PL: FloatArray, size: int, draws: int) -> tuple[float, float, float]:
    """Choose the cheapest block on some prompts and bound its cost on as many others, as ``prune`` does.

    Returns:
        How often the upper end of the plain interval is below the truth; how often one is given; how often one that is
        given is below the truth.
    """
    rng = np.random.default_rng([size, len(costs_PL), 1])
    truth, outcomes = costs_PL.mean(axis=0), []
    for draw in range(draws):
        calibration, test = costs_PL[rng.integers(len(costs_PL), size=(2, size))]
        block = int(calibration.mean(axis=0).argmin())
        sampling = Sampling(RESAMPLES, 0.95, seed=draw)
        plain = mean_intervals(test[:, [block]], sampling)
        few = carried_by_few(np.append(calibration[:, block], test[:, block])[:, None])
        [ends] = bounded_intervals(plain, few, test[:, [block]], sampling)
        outcomes.append([plain[0].high < truth[block], not np.isnan(ends.high), ends.high < truth[block]])
    too_low, is_given, given_too_low = np.mean(outcomes, axis=0)
    return float(too_low), float(is_given), float(given_too_low)


def print_bounds(sizes: Sequence[int], draws: int) -> None:
    """Print how often intervals are given and hold, and how often that of what costs least ends too low."""
    print(f"| population | prompts | {' | '.join(BOUNDS)} |")
    print(f"|---|{'---:|' * (1 + len(BOUNDS))}")
    for name, costs_PL in populations().items():
        for size in sizes:
            cells = ["–" if np.isnan(share) else f"{share:.0f}" for share in bounds_row(costs_PL, size, draws)]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


def bounds_row(costs_PL: FloatArray, size: int, draws: int) -> list[float]:
    """Return the columns ``BOUNDS`` of one population and number of prompts, in per cent."""
    plain, _, _ = coverage(costs_PL, size, draws, mean_intervals)
    shares = [plain, *given_coverage(costs_PL, size, draws), *chosen_too_low(costs_PL, size, draws)]
    return [100 * share for share in shares]


def print_kinds(sizes: Sequence[int], draws: int) -> None:
    """Print how often two kinds of intervals hold, and how often they call a block idle that is not."""
    kinds: dict[str, Intervals] = {"plain": mean_intervals, "outward": outward_mean_intervals}
    print("| population | prompts | plain (worst block; truth above) | outward | idle, plain | idle, outward |")
    print("|---|---:|---|---|---:|---:|")
    for name, costs_PL in populations().items():
        for size in sizes:
            cells = []
            for intervals in kinds.values():
                held, worst, above = coverage(costs_PL, size, draws, intervals)
                cells.append(f"{100 * held:.0f} ({100 * worst:.0f}; {100 * above:.0f})")
            cells += [f"{100 * called_idle(costs_PL, size, draws, kind):.0f}" for kind in kinds.values()]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--prompts", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--bounds", action="store_true", help="of intervals that are only given where they hold")
    options = parser.parse_args()
    print_bounds(options.prompts, options.draws) if options.bounds else print_kinds(options.prompts, options.draws)


if __name__ == "__main__":
    main()
