"""A threshold at which tokens leave at an exit for good, so that a bounded share of them comes out otherwise.

It is learned on one half of the prompts and tested on the other (learn then test).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.risk import fewest_prompts, passing
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.exits.reading import Trace

# Candidates: they would change 0, 1/10, … of the bound on the prompts that they are learned from.
_STEPS: Final = 10


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


def find_threshold(traced: Sequence[Trace], bound: float, sampling: Sampling) -> Threshold:
    """Learn an exit and candidates on one half of the prompts, and test them on the other.

    Tokens are judged where the tokens before them are the whole model's own, with keys and values of all blocks.

    Args:
        bound: of ``changed``.
        sampling: its level is 1 − the chance that the threshold breaks the bound; its seed halves the prompts, of which
            those of one cluster go into one half, and their mean counts once.
    """
    error = 1 - sampling.level
    numbers = np.arange(len(traced)) if sampling.cluster is None else sampling.cluster
    clusters = [[traced[int(place)] for place in np.flatnonzero(numbers == number)] for number in np.unique(numbers)]
    order = np.random.default_rng(sampling.seed).permutation(len(clusters))
    learning, testing = ([clusters[place] for place in half] for half in np.array_split(order, 2))
    learned = [trace for cluster in learning for trace in cluster]
    n_exits = len(traced[0].agrees)
    ladders = [_list_candidates(learned, exit_, bound) for exit_ in range(n_exits)]
    ready = [_mean_shares(learned, exit_, ladder[-1])[0] for exit_, ladder in enumerate(ladders)]
    saved = [share * (1 - exit_ / (n_exits + 1)) for exit_, share in enumerate(ready, start=1)]
    best = int(np.argmax(saved))
    losses = np.array(
        [
            [np.mean([_changed_share(trace, best, candidate) for trace in cluster]) for cluster in testing]
            for candidate in ladders[best]
        ]
    )
    # The first is the safest: testing stops at the first that fails, so that no correction for their number is needed.
    passed = passing(losses, bound, error)
    probability = float(ladders[best][passed - 1]) if passed else np.nan
    if not np.isfinite(probability):
        probability = np.nan  # only a threshold that no token reaches keeps the bound
    ready_share, changed_share = (
        float(np.mean(shares)) for shares in zip(*(_mean_shares(cluster, best, probability) for cluster in testing))
    )
    return Threshold(best + 1, probability, ready_share, changed_share, len(testing), fewest_prompts(bound, error))


def _list_candidates(traced: Sequence[Trace], exit_: int, bound: float) -> FloatArray:
    """Return probabilities from the safest down, each of a token that may then leave."""
    probability = np.concatenate([trace.probability[exit_] for trace in traced])
    wrong = np.concatenate([~trace.agrees[exit_] / len(trace.repeated) for trace in traced]) / len(traced)
    order = np.argsort(-probability, kind="stable")
    probability, changed = probability[order], np.cumsum(wrong[order])
    # of equal probabilities all leave, or none
    last = np.append(probability[1:] < probability[:-1], True)
    probability, changed = probability[last], changed[last]
    places = [int(np.searchsorted(changed, bound * step / _STEPS, side="right")) - 1 for step in range(_STEPS + 1)]
    candidates = [probability[place] if place >= 0 else np.inf for place in places]
    return np.array(list(dict.fromkeys(candidates)))


def _changed_share(trace: Trace, exit_: int, probability: float) -> float:
    return float((~trace.agrees[exit_] & (trace.probability[exit_] >= probability)).mean())


def _mean_shares(traced: Sequence[Trace], exit_: int, probability: float) -> tuple[float, float]:
    """Return the shares of tokens that leave, and that change, means over prompts."""
    leaving = [float((trace.probability[exit_] >= probability).mean()) for trace in traced]
    return float(np.mean(leaving)), float(np.mean([_changed_share(trace, exit_, probability) for trace in traced]))
