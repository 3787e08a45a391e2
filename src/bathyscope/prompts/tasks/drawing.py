"""Problems drawn at random, but each by its own number: levels in turn, and splits that never overlap.

Which problems are held out is decided by a hash of what they ask, not by chance: a problem is on the same side for
every seed, so that training on one seed and testing on another stays clean. What is harder than any training problem
(``extrapolate``) is so by construction and needs no hash.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, ClassVar, Generic, NamedTuple, SupportsIndex, TypeVar

from bathyscope.errors import OptionError, describe_value, did_you_mean
from bathyscope.prompts.tasks.problem import SPLITS, Problem, Split

Level = TypeVar("Level", int, str)

HELD_OUT = 8
"""One in this many problems is kept from training."""
ATTEMPTS = 20_000
"""Draws before a split is given up as empty."""


class DrawnProblem(NamedTuple):
    """A problem with labels of its own, and what it asks apart from order and wording; one key is on one side."""

    problem: Problem
    key: str


class Task(ABC, Generic[Level]):
    """A family of problems, each known by its number, a seed and a split; made from its options."""

    name: ClassVar[str]
    """As ``TASKS`` lists it."""
    options_type: ClassVar[type[Any]]
    lower_bound: ClassVar[str]
    """What is proven about the sequential steps that its problems need, with its source."""
    controls: ClassVar[str]
    """What keeps a model from finding answers in another way."""
    words: tuple[str, ...] | None = None
    """All words, divided by blanks, of questions, steps and answers; None where texts are free."""
    _usual: Sequence[Level]
    _beyond: Sequence[Level]

    def __init__(self, options: Any = None) -> None:
        """Of an instance of ``options_type``; an OptionError where one of its values is not allowed."""

    def levels(self, split: Split) -> Sequence[Level]:
        """What takes turns in a split: numbers of steps k, or names of modules."""
        return self._beyond if split == "extrapolate" else self._usual

    @abstractmethod
    def draw(self, rng: random.Random, level: Level, split: Split) -> DrawnProblem | None:
        """A problem of ``level``, or None where what was drawn does not belong to ``split``."""

    def problem(self, index: int, seed: int, split: Split) -> Problem:
        """Problem ``index`` of a split, the same whichever others are asked for.

        No problem is in two splits, whatever the seeds. Levels (numbers of hops, modules …) take turns, and a
        level's problems are the same whichever other levels are chosen.

        Raises:
            OptionError: no such split, a negative index, or options that leave the split without problems.
        """
        if split not in SPLITS:
            raise OptionError(
                f"{self.name}: {split!r} is no split.{did_you_mean(str(split), SPLITS)} Allowed: {', '.join(SPLITS)}."
            )
        if not isinstance(index, SupportsIndex) or index.__index__() < 0:
            raise OptionError(
                f"{self.name}: problem {describe_value(index)} does not exist; problems are counted from 0, in whole "
                "numbers."
            )
        levels = self.levels(split)
        turn, place = divmod(index, len(levels))
        # A generator for each problem, so that none depends on how many were drawn before it.
        rng = _generator(f"{self.name}/{seed}/{split}/{levels[place]}/{turn}")
        for _ in range(ATTEMPTS):
            attempt = self.draw(rng, levels[place], split)
            if attempt is not None and (split == "extrapolate" or is_held_out(attempt.key) == (split == "interpolate")):
                labels = {"task": self.name, "split": split, **attempt.problem.labels}
                return replace(attempt.problem, labels=labels)
        raise OptionError(
            f"{self.name}: no problem of level {levels[place]} is in {split!r} with these options; allow larger "
            "problems, of which there are more."
        )


def is_held_out(key: str) -> bool:
    """Whether a problem is kept from training, by a hash of what it asks."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % HELD_OUT == 0


def _generator(key: str) -> random.Random:
    return random.Random(int.from_bytes(blake2b(key.encode(), digest_size=16).digest()))


def level_range(where: str, levels: Sequence[int], lowest: int, highest: int, reason: str = "") -> range:
    """Levels from the first to the last number given (one stands for itself); ``reason``: why the range is as it is."""
    if not 1 <= len(levels) <= 2 or levels[0] > levels[-1]:
        raise OptionError(f"{where} takes a number or a rising pair such as (1, 8); {tuple(levels)!r} given.")
    if levels[0] < lowest or levels[-1] > highest:
        raise OptionError(
            f"{where} reaches from {levels[0]} to {levels[-1]}; allowed: {lowest} to {highest}"
            f"{f' ({reason})' if reason else ''}."
        )
    return range(levels[0], levels[-1] + 1)


def check_choice(where: str, choice: str, allowed: Sequence[str]) -> None:
    """Refuse a text that is none of those allowed."""
    if choice not in allowed:
        raise OptionError(
            f"{where}={choice!r} is not allowed.{did_you_mean(choice, allowed)} Allowed: {', '.join(allowed)}."
        )
