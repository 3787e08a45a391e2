"""How often the intervals of differences hold the truth, on the populations of interval_coverage.py.

    python benchmarks/difference_coverage.py --draws 200

Each pair of populations is drawn with the same deviations of the prompts (paired: two models on one set of
prompts) and with independent ones (two-sample). docs/comparing.md records the outcome.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from interval_coverage import SCENARIOS, Scenario, draw, truth

from bathyscope.statistics.difference import paired_difference, two_sample_difference
from bathyscope.statistics.effective_depth import DepthInputs, estimators
from bathyscope.statistics.reading import Reading

POPULATION = {scenario.name: scenario for scenario in SCENARIOS}
PAIRS: dict[str, tuple[Scenario, Scenario]] = {
    "no difference": (POPULATION["skewed prompts"], POPULATION["skewed prompts"]),
    "1.3 blocks later, noisy": (POPULATION["noisy"], POPULATION["noisy"]._replace(shift=1.3)),
    "0.7 blocks earlier, longer differ": (
        POPULATION["longer differ"],
        POPULATION["longer differ"]._replace(shift=-0.7),
    ),
    "28 and 12 blocks": (POPULATION["gradual"], POPULATION["12 blocks"]),
}
_ROUNDING = 1e-9


class Outcome(NamedTuple):
    """One interval of one draw: whether it holds the truth, whether it excludes 0, its width as a share of L."""

    covered: bool
    excludes: bool
    width: float


def study(draws: int, prompts: int, resamples: int) -> dict[tuple[str, str, str], list[Outcome]]:
    """Outcomes by pair of populations, paired or two-sample, and estimator."""
    found: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for label, (first, second) in PAIRS.items():
        true = {name: _ratio(second, name) - _ratio(first, name) for name in truth(first)}
        for number in range(draws):
            for kind, compare in (("paired", paired_difference), ("two-sample", two_sample_difference)):
                if kind == "paired" and first == second:
                    continue  # the same prompts of the same population are the same run
                seeds = (number, 0), (number, int(kind == "two-sample"))
                readings = [
                    _ratios(draw(population, prompts, np.random.default_rng(seed)))
                    for population, seed in zip((first, second), seeds)
                ]
                for name in set(readings[0]) & set(true):
                    one = compare(readings[0][name], readings[1][name], resamples=resamples, seed=number)
                    if not math.isnan(one.ci_low):
                        held = one.ci_low - _ROUNDING <= true[name] <= one.ci_high + _ROUNDING
                        outside = one.ci_low > _ROUNDING or one.ci_high < -_ROUNDING
                        found[label, kind, name].append(Outcome(held, outside, one.ci_high - one.ci_low))
    return found


def _ratios(curves: DepthInputs) -> dict[str, Reading]:
    return {name: one.ratio(curves.n_blocks) for name, one in estimators(curves).items()}


def _ratio(population: Scenario, name: str) -> float:
    return (truth(population)[name] + 1) / population.blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--prompts", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--resamples", type=int, default=400)
    given = parser.parse_args()
    print("| populations | prompts | | estimator | covered % | excludes 0 % | mean width, blocks of 28 |")
    print("|---|---:|---|---|---:|---:|---:|")
    for prompts in given.prompts:
        for (label, kind, name), drawn in sorted(study(given.draws, prompts, given.resamples).items()):
            covered, excludes, width = (float(np.mean([one[field] for one in drawn])) for field in range(3))
            print(
                f"| {label} | {prompts} | {kind} | {name} | {100 * covered:.1f} | {100 * excludes:.1f} | "
                f"{28 * width:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
