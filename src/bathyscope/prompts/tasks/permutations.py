"""Permutation composition: the word problem of S5, the smallest symmetric group that is not solvable.

``compose 21345 12345 23451 … :`` asks for the permutation that applies the factors from left to right. A word such as
``23451`` sends 1 to 2, 2 to 3 … and 5 to 1. k factors are not the identity; they are at random among identities.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from itertools import permutations as orders
from typing import Literal

from bathyscope.prompts.tasks.drawing import DrawnProblem, Task, level_range
from bathyscope.prompts.tasks.problem import Problem, Split

Permutation = tuple[int, ...]
"""Where 0, 1, 2, 3 and 4 are sent."""

POINTS = range(5)
IDENTITY: Permutation = tuple(POINTS)
MAX_FACTORS = 512

_LOWER_BOUND = """\
Conditional: the word problem of S5, and already the image of one point, is complete for NC1 under AC0 reductions \
(Barrington 1989), and transformers of fixed depth and logarithmic precision compute only what is in uniform TC0 \
(Merrill & Sabharwal 2023): unless TC0 = NC1, none solves all k, whatever its width. Enough are O(log k) layers, by \
multiplying neighbours (Liu et al. 2023). Not proven: TC0 ≠ NC1, that k factors need k layers, or anything for one k."""

_CONTROLS = """\
All questions have the same number of factors, of which all but k are the identity, at random places: k can be \
counted, but not read off the length or the place, and identities are elements like others. With elements=all, whoever \
knows all factors but one can rule out one product of 120 and knows nothing about the others. With elements=generators \
products are not uniform: small k reach few permutations, and the number of transpositions gives the sign."""


@dataclass(frozen=True)
class PermutationsOptions:
    """Options of permutation composition; the defaults are those of the checkpoints of this name.

    Args:
        factors: lowest and highest k of training and interpolation; k factors are not the identity.
        beyond: lowest and highest k of extrapolation, and so the length of all questions; None = one more than in
            training.
        elements: "all" = factors are any of the 120; "generators" = the ten transpositions and one cycle of length
            five, as words of their own: ``(12)`` … ``(45)``, ``(12345)`` and ``()`` for the identity.
        answer: "product" = the permutation, one of 120 words; "image" = where one point is sent, one of 5. The label
            ``moves`` then says how many factors move the point on its way.
    """

    factors: tuple[int, ...] = (1, 8)
    beyond: tuple[int, ...] | None = None
    elements: Literal["all", "generators"] = "generators"
    answer: Literal["product", "image"] = "image"


class Permutations(Task[int]):
    """Products of k permutations of five points."""

    name = "permutations"
    options_type = PermutationsOptions
    lower_bound = _LOWER_BOUND
    controls = _CONTROLS

    def __init__(self, options: PermutationsOptions) -> None:
        self._usual = level_range(f"{self.name}: factors", options.factors, 1, MAX_FACTORS)
        most = self._usual[-1]
        beyond = options.beyond or (most + 1, most + 1)
        self._beyond = level_range(f"{self.name}: beyond", beyond, most + 1, 2 * MAX_FACTORS, "more than in training")
        self._asks_image = options.answer == "image"
        self._elements = _ALL if options.elements == "all" else _GENERATORS
        self._moving = tuple(element for element in self._elements if element != IDENTITY)
        answers = _POINT_WORDS if self._asks_image else tuple(_ALL.values())
        asking = ("compose", "of", ":") if self._asks_image else ("compose", ":")
        self.words = tuple(dict.fromkeys((*self._elements.values(), *answers, *asking)))

    def draw(self, rng: random.Random, level: int, split: Split) -> DrawnProblem:
        factors = [IDENTITY] * self._beyond[-1]
        for place in rng.sample(range(len(factors)), level):
            factors[place] = rng.choice(self._moving)
        composition = " ".join(self._elements[factor] for factor in factors)
        products = list(accumulate(factors, then))
        # Identities change no product: the same factors at other places are the same problem.
        key = " ".join(self._elements[factor] for factor in factors if factor != IDENTITY)
        labels = {"k": level}
        if self._asks_image:
            point = rng.choice(POINTS)
            question = f"compose {composition} of {_POINT_WORDS[point]} :"
            results = [_POINT_WORDS[product[point]] for product in products]
            key = f"{key} of {_POINT_WORDS[point]}"
            path = [point, *(product[point] for product in products)]
            labels["moves"] = sum(here != after for here, after in pairwise(path))
        else:
            question = f"compose {composition} :"
            results = [_ALL[product] for product in products]
        # identities elsewhere make no other problem, but single steps are few and all have to be learned
        return DrawnProblem(
            Problem(question, results[-1], " ".join(results[:-1]), labels), question if level == 1 else key
        )


def then(first: Permutation, second: Permutation) -> Permutation:
    """The permutation that applies ``first`` and then ``second``."""
    return tuple([second[point] for point in first])


def _exchange(first: int, second: int) -> Permutation:
    swap = {first: second, second: first}
    return tuple(swap.get(point, point) for point in POINTS)


_POINT_WORDS = tuple(str(point + 1) for point in POINTS)
_ALL: Mapping[Permutation, str] = {order: "".join(_POINT_WORDS[point] for point in order) for order in orders(POINTS)}
_GENERATORS: Mapping[Permutation, str] = {
    IDENTITY: "()",
    **{_exchange(a, b): f"({a + 1}{b + 1})" for a, b in combinations(POINTS, 2)},
    (1, 2, 3, 4, 0): "(12345)",
}
