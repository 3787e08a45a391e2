"""Pointer chasing: k hops along the arrows of a graph that the question writes out in random order.

``a > c ; c > f ; f > a … ; start a hop hop stay stay :`` asks for the node two hops from ``a``, here ``f``. The arrows
are a random permutation of the nodes that is one single cycle.
"""

import random
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Annotated

from bathyscope.options import Range
from bathyscope.prompts.tasks.drawing import DrawnProblem, Task, level_range
from bathyscope.prompts.tasks.problem import Problem, Split

HOP, STAY = "hop", "stay"
MAX_NODES = 26 + 26**2

_LOWER_BOUND = """\
Unconditional: for every constant L, a decoder of L layers needs a width polynomial in the length of the text to \
compose L functions written out in it (Chen, Peng & Wu 2024; their functions differ from step to step, where this is \
one function k times). Conditional, k growing with the question: telling which of two nodes comes first on a path \
written out arrow by arrow is complete for L (Etessami 1997) and reduces to this task, while transformers of fixed \
depth and logarithmic precision compute only what is in uniform TC0 (Merrill & Sabharwal 2023): unless TC0 = L, none \
solves all k. For k-hop induction heads, a relative of this task, O(log k) layers are enough and, if one cycle cannot \
be told from two in o(log n) rounds of parallel computation, Ω(log k) needed (Sanford, Hsu & Telgarsky 2024). Not \
proven: that k hops need k layers, or anything for one k and one number of nodes."""

_CONTROLS = """\
All questions have the same length, whatever k. Every node has one arrow to it and one from it, so that none can be \
ruled out by counting. The graph is one cycle: the first k nodes are all different, and given the start, k and the \
place of any arrow, the answer is uniform over the other nodes. Training hops reach at most half round, so that \
walking backwards is never shorter (label shortest = the shorter way round). Arrows stand in random order."""


@dataclass(frozen=True)
class PointerChasingOptions:
    """Options of pointer chasing.

    Args:
        nodes: of the graph; at least twice the most training hops.
        hops: lowest and highest k of training and interpolation.
        beyond: lowest and highest k of extrapolation; None = from one more than in training to twice as many (or to
            one less than there are nodes). Beyond half of the nodes the way backwards is shorter.
    """

    nodes: Annotated[int, Range(3, MAX_NODES)] = 16
    hops: tuple[int, ...] = (1, 8)
    beyond: tuple[int, ...] | None = None


class PointerChasing(Task[int]):
    """Problems of k hops in a random cycle of named nodes."""

    name = "pointer_chasing"
    options_type = PointerChasingOptions
    lower_bound = _LOWER_BOUND
    controls = _CONTROLS

    def __init__(self, options: PointerChasingOptions) -> None:
        reason = "half of the nodes, so that walking backwards is not shorter"
        self._usual = level_range(f"{self.name}: hops", options.hops, 1, options.nodes // 2, reason)
        most = self._usual[-1]
        beyond = options.beyond or (most + 1, min(2 * most, options.nodes - 1))
        reason = "more than in training, fewer than there are nodes"
        self._beyond = level_range(f"{self.name}: beyond", beyond, most + 1, options.nodes - 1, reason)
        self._nodes = tuple(node_names(options.nodes))
        self.words = (*self._nodes, ">", ";", "start", HOP, STAY, ":")

    def draw(self, rng: random.Random, level: int, split: Split) -> DrawnProblem:
        cycle = list(self._nodes)
        rng.shuffle(cycle)
        arrows = [f"{node} > {cycle[number - 1]} ;" for number, node in enumerate(cycle)]
        rng.shuffle(arrows)
        path = cycle[: -2 - level : -1]  # every arrow leads one place towards the front
        # As many marks in every question, so that its length does not tell k.
        marks = [HOP] * level + [STAY] * (self._beyond[-1] - level)
        walk = f"start {path[0]} {' '.join(marks)} :"
        labels = {"k": level, "hops": level, "shortest": min(level, len(cycle) - level)}
        steps = " ".join(path[1:-1]) or None
        problem = Problem(f"{' '.join(arrows)} {walk}", path[-1], steps, labels)
        # the nodes in the order of the walk: the same graph with its arrows in another order is the same problem
        return DrawnProblem(problem, f"{' '.join(cycle)} {level}")


def node_names(count: int) -> list[str]:
    """Return the first ``count`` names of ``a`` to ``z``, then ``aa``, ``ab`` and so on."""
    doubles = (first + second for first in ascii_lowercase for second in ascii_lowercase)
    return [*ascii_lowercase, *doubles][:count]
