"""Which prompts of several runs are one draw: copies of a prompt, prompts that are paired, prompts of one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths.pairing import Match, match, pairs_by_id
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.errors import OptionError
from bathyscope.prompts.parts import clusters, drawn_together, parts

Numbers = NDArray[np.intp]


def draw_as_one(
    sides: Sequence[ComparedPrompts], label: str | None = None, *, paired: bool | None = None
) -> list[ComparedPrompts]:
    """Return sides whose curves know the cluster of each prompt, of one number for prompts that are one draw.

    Copies of a prompt are one draw in whichever run they are, and so are prompts that are paired. Sides are without
    clusters where each prompt stands for itself and for those that it is paired with.

    Args:
        label: of the prompts that are drawn together as well, in whichever run they are.
        paired: as in ``compare``; False = the same prompts of two runs are other draws.

    Raises:
        OptionError: a label that makes no clusters.
    """
    numbers = _copies_and_pairs(sides, paired) if label is None else _clusters(sides, label)
    return [replace(side, curves=replace(side.curves, cluster=member)) for side, member in zip(sides, numbers)]


def _copies_and_pairs(sides: Sequence[ComparedPrompts], paired: bool | None) -> Sequence[Numbers | None]:
    together = _copies(sides, of_each_run=paired is not None)
    places = _split(np.arange(together.size), sides)
    matched: list[tuple[int, int, Match]] = []
    for first, second in combinations(range(len(sides)), 2):
        # what speaks against insisted pairs is warned of where sides are paired, and here once is enough
        pairs = pairs_by_id(sides[first], sides[second]) if paired else match(sides[first], sides[second], paired)
        matched.append((first, second, pairs))
        linked = np.arange(together.size)
        linked[places[second][pairs.second]] = places[first][pairs.first]
        both = drawn_together(together, linked)
        assert both is not None
        together = both
    numbers = _split(together, sides)
    has_copies = any(np.unique(member).size < member.size for member in numbers)
    # of two samples, some prompts of one may be in the other
    overlap = any(np.intersect1d(numbers[a], numbers[b]).size > pairs.first.size for a, b, pairs in matched)
    return numbers if has_copies or overlap else [None] * len(sides)


def _clusters(sides: Sequence[ComparedPrompts], label: str) -> Sequence[Numbers]:
    values = []
    for side in sides:
        try:
            values += clusters(side.prompts, label)
        except OptionError as error:
            raise OptionError(f"{side.name}: {error}") from error
    # numbered over all runs together: equal labels are one cluster in every run
    together = drawn_together(parts(values)[1], _copies(sides, of_each_run=False))
    assert together is not None
    return _split(together, sides)


def _copies(sides: Sequence[ComparedPrompts], of_each_run: bool) -> Numbers:
    """Return a number for each prompt of all sides, equal for equal tokens.

    Args:
        of_each_run: prompts of two runs are never copies.
    """
    tokenizers = [side.identity.tokenizer_hash for side in sides]
    # what was given as ids means the same under every tokenizer
    differ = len({*tokenizers} - {None}) > 1
    first: dict[object, int] = {}
    numbers = [
        first.setdefault((run if of_each_run else tokenizers[run] if differ else None, prompt.ids), len(first))
        for run, side in enumerate(sides)
        for prompt in side.prompts
    ]
    return np.array(numbers, dtype=np.intp)


def _split(numbers: Numbers, sides: Sequence[ComparedPrompts]) -> list[Numbers]:
    return np.split(numbers, np.cumsum([len(side.prompts) for side in sides])[:-1])
