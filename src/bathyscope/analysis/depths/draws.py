"""Which prompts of several runs are one draw: copies of a prompt, prompts that are paired, prompts of one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations

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
        OptionError: a label that makes no clusters, or other ones of the same prompts in another run.
    """
    numbers = _copies_and_pairs(sides, paired) if label is None else _clusters(sides, label, paired)
    return [replace(side, curves=replace(side.curves, cluster=member)) for side, member in zip(sides, numbers)]


def _copies_and_pairs(sides: Sequence[ComparedPrompts], paired: bool | None) -> Sequence[Numbers | None]:
    together = _copies(sides, of_each_run=paired is not None)
    places = _split(np.arange(together.size), sides)
    matched: list[tuple[int, int, Match]] = []
    for first, second in combinations(range(len(sides)), 2):
        pairs = _pairs(sides[first], sides[second], paired)
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


def _pairs(first: ComparedPrompts, second: ComparedPrompts, paired: bool | None) -> Match:
    # what stands against insisted pairs is warned of where sides are paired, and once is enough
    return pairs_by_id(first, second) if paired else match(first, second, paired)


def _clusters(sides: Sequence[ComparedPrompts], label: str, paired: bool | None) -> Sequence[Numbers]:
    values = []
    for side in sides:
        try:
            values.append(clusters(side.prompts, label))
        except OptionError as error:
            raise OptionError(f"{side.name}: {error}") from error
    # before clusters that hold copies of one prompt are one: the same prompts of two runs would join them all
    _require_same_clusters(sides, values, paired)
    # numbered over all runs together: equal labels are one cluster in every run
    together = drawn_together(parts(chain(*values))[1], _copies(sides, of_each_run=paired is False))
    assert together is not None
    return _split(together, sides)


def _require_same_clusters(
    sides: Sequence[ComparedPrompts], values: Sequence[Sequence[str | None]], paired: bool | None
) -> None:
    """Refuse runs that put the same prompts into different clusters.

    Args:
        values: the label of every prompt of each side.
    """
    for first, second in combinations(range(len(sides)), 2):
        pairs = _pairs(sides[first], sides[second], paired)
        unlike = [
            place for place, other in zip(pairs.first, pairs.second) if values[first][place] != values[second][other]
        ]
        if unlike:
            raise OptionError(
                f"{sides[first].name} and {sides[second].name} measured the same prompts and put them into different "
                f"clusters ({len(unlike)} of {len(pairs.first)}, the first of them "
                f"{sides[first].prompt_ids[unlike[0]]!r}). Label them alike, or compare them as two samples: "
                "paired=False (--unpaired)."
            )


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
