"""Leaving at an exit for good where it is sure enough: a threshold that changes at most a bounded share of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bathyscope.arrays import FloatArray, IntArray
from bathyscope.exits.reading import Trace
from bathyscope.statistics.risk import fewest_prompts, passing

_STEPS: Final = 10
"""Candidates: they would change 0, 1/10, … of the bound on the prompts that they are learned from."""


@dataclass(frozen=True)
class Threshold:
    """What was tested.

    Args:
        exit_: boundary, chosen on the prompts of learning: there most blocks are saved.
        probability: tokens whose likeliest one has at least so much may leave; NaN = no threshold keeps the bound.
        ready: share of the tokens that may.
        changed: mean over prompts of the share of their tokens that come out otherwise.
        prompts: that tested it, and of which ``ready`` and ``changed`` are; or clusters of them.
        fewest: with fewer of them than this none could have passed.
    """

    exit_: int
    probability: float
    ready: float
    changed: float
    prompts: int
    fewest: int


def threshold(
    traces: Sequence[Trace], bound: float, level: float, seed: int, cluster: IntArray | None = None
) -> Threshold:
    """Learns an exit and candidates on one half of the prompts, and tests them on the other.

    Tokens are judged where the tokens before them are the whole model's own, with keys and values of all blocks.

    Args:
        bound: of ``changed``.
        level: 1 − the chance that the threshold breaks it.
        cluster: [prompts], prompts of one number go into one half, and their mean counts once; None = each for itself.
    """
    numbers = np.arange(len(traces)) if cluster is None else cluster
    together = [[traces[int(place)] for place in np.flatnonzero(numbers == own)] for own in np.unique(numbers)]
    order = np.random.default_rng(seed).permutation(len(together))
    halves = [[together[place] for place in half] for half in np.array_split(order, 2)]
    learned, tested = [trace for own in halves[0] for trace in own], halves[1]
    n_exits = len(traces[0].agrees)
    ladders = [_ladder(learned, exit_, bound) for exit_ in range(n_exits)]
    ready = [_means(learned, exit_, ladder[-1])[0] for exit_, ladder in enumerate(ladders)]
    saved = [own * (1 - exit_ / (n_exits + 1)) for exit_, own in enumerate(ready, start=1)]
    best = int(np.argmax(saved))
    losses = np.array(
        [[np.mean([_changed(trace, best, one) for trace in own]) for own in tested] for one in ladders[best]]
    )
    number = passing(losses, bound, 1 - level)
    found = float(ladders[best][number - 1]) if number else np.nan
    shares = [float(np.mean(own)) for own in zip(*(_means(own, best, found) for own in tested))]
    return Threshold(best + 1, found, shares[0], shares[1], len(tested), fewest_prompts(bound, 1 - level))


def _ladder(traces: Sequence[Trace], exit_: int, bound: float) -> FloatArray:
    """Probabilities from the safest down, each of a token that may then leave."""
    sure = np.concatenate([trace.probability[exit_] for trace in traces])
    wrong = np.concatenate([~trace.agrees[exit_] / len(trace.repeated) for trace in traces]) / len(traces)
    order = np.argsort(-sure, kind="stable")
    changed = np.cumsum(wrong[order])
    # of equal probabilities all leave, or none
    last = np.append(sure[order][1:] < sure[order][:-1], True)
    sure, changed = sure[order][last], changed[last]
    places = [int(np.searchsorted(changed, bound * step / _STEPS, side="right")) - 1 for step in range(_STEPS + 1)]
    found = [sure[place] if place >= 0 else np.inf for place in places]
    return np.array(list(dict.fromkeys(found)))


def _changed(trace: Trace, exit_: int, probability: float) -> float:
    return float((~trace.agrees[exit_] & (trace.probability[exit_] >= probability)).mean())


def _means(traces: Sequence[Trace], exit_: int, probability: float) -> tuple[float, float]:
    """Shares of tokens that leave, and that change, means over prompts."""
    leaving = [float((trace.probability[exit_] >= probability).mean()) for trace in traces]
    return float(np.mean(leaving)), float(np.mean([_changed(trace, exit_, probability) for trace in traces]))
