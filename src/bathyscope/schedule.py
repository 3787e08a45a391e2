"""The order in which a model's blocks run, as frozen data.

``Schedule.standard(24).drop(5)`` leaves block 5 out, ``.swap(3)`` runs block 4 before block 3,
``.repeat(8, length=5)`` runs each block of the window 8…12 twice in a row, ``.parallel(3, 4)`` lets blocks 3 and 4 read
the same stream and adds what both contribute. The same schedule drives the analysis and can be applied to a real model.
Source: lad2024 (drop, swap, repeat).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol, runtime_checkable

from bathyscope.core.schedule_text import (
    MOST_STEPS,
    OrderStep,
    fewest_blocks,
    names_runs,
    read_steps,
    stages_in_words,
    write_group,
    write_order,
)
from bathyscope.errors import OptionError, describe_value
from bathyscope.options import require_no_dict


@runtime_checkable
class Scheduling(Protocol):
    """A result that stands for an order of blocks, such as the plan that ``prune`` made."""

    def as_schedule(self) -> Schedule:
        """Return the order."""


@dataclass(frozen=True)
class Schedule:
    """The blocks in the order they run; ``n_blocks`` is the number of blocks the model has.

    Equal orders are equal schedules, however they were made: swapping twice gives the standard schedule.

    Args:
        order: the block of every step.
        groups: neighbours in the order that read the same stream: out = in + Σ (block(in) − in).

    Raises:
        OptionError: a block outside 0 … n_blocks − 1, no whole number, or more than ``MOST_STEPS`` steps; a group of
            blocks that are no neighbours, or that do not run once.

    Example:
        >>> bathyscope.Schedule.standard(4).drop(1)
        Schedule(order=(0, 2, 3), n_blocks=4)
        >>> print(bathyscope.Schedule.standard(4).drop(1).drop(3))
        drop:1,drop:3
        >>> bathyscope.Schedule.standard(4).repeat(1, length=2).in_words
        '0…1 1…2 2…3 of 4 blocks'
        >>> tuple(bathyscope.Schedule.parse("drop:1,swap:2", 4))
        (0, 3, 2)
        >>> bathyscope.Schedule.standard(4).drop_runs([0, 2]).order
        (1, 3)
        >>> bathyscope.Schedule.standard(4).parallel(1, 2).stages
        ((0,), (1, 2), (3,))
        >>> print(bathyscope.Schedule.parse("parallel:1-3", 4))
        parallel:1-3
        >>> swapped = bathyscope.Schedule.of("swap:2", 4)
        >>> swapped == bathyscope.Schedule.standard(4).swap(2)
        True
        >>> swapped.is_standard, swapped.clean_prefix
        (False, 2)
    """

    order: tuple[int, ...]
    n_blocks: int
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_blocks", _number_of_blocks(self.n_blocks))
        if isinstance(self.order, str | bytes) or not isinstance(self.order, Sized):
            raise OptionError(f"A schedule's order is a list of blocks such as [0, 2, 1]; {self.order!r} given.")
        _require_steps(len(self.order))
        object.__setattr__(self, "order", tuple(self._block(block, "a schedule") for block in self.order))
        groups = [self._group(group) for group in self.groups]
        # Equal schedules have equal groups: in the order in which they run, and none of a single block.
        groups = sorted((group for group in groups if len(group) > 1), key=lambda group: self.order.index(group[0]))
        for first, second in combinations(groups, 2):
            if shared := sorted(set(first) & set(second)):
                raise OptionError(
                    f"{write_group(second)}: block {shared[0]} runs in parallel already ({write_group(first)}); name "
                    "all blocks that read the same stream together."
                )
        object.__setattr__(self, "groups", tuple(groups))

    def __repr__(self) -> str:
        groups = f", groups={self.groups}" if self.groups else ""
        return f"Schedule(order={self.order}, n_blocks={self.n_blocks}{groups})"

    @classmethod
    def standard(cls, n_blocks: int) -> Schedule:
        """Every block once, in order."""
        return cls(tuple(range(_number_of_blocks(n_blocks))), n_blocks)

    def drop(self, block: int) -> Schedule:
        """Without ``block``."""
        block = self._block(block, "drop")
        if block not in self.order:
            raise OptionError(f"drop:{block}: block {block} does not run in this schedule ({self}).")
        self._require_alone([block], f"drop:{block}")
        return Schedule(tuple(b for b in self.order if b != block), self.n_blocks, self.groups)

    def drop_runs(self, runs: Sequence[int]) -> Schedule:
        """Without several blocks, such as all runs of one block of a loop."""
        if isinstance(runs, str | bytes) or not isinstance(runs, Iterable):
            raise OptionError(f"runs={runs!r} is no list of blocks; give one, such as [1, 2].")
        require_no_dict(runs, "runs")
        schedule = self
        for run in runs:
            schedule = schedule.drop(run)
        return schedule

    def swap(self, block: int) -> Schedule:
        """``block`` and the next one exchange places."""
        block = self._block(block, "swap")
        other = block + 1
        if other >= self.n_blocks:
            raise OptionError(
                f"swap:{block}: block {block} is the last of {self.n_blocks}, it has no next block; "
                f"allowed: 0 to {self.n_blocks - 2}."
            )
        if self.order.count(block) != 1 or self.order.count(other) != 1:
            raise OptionError(f"swap:{block}: blocks {block} and {other} must each run once ({self}).")
        self._require_alone([block, other], f"swap:{block}")
        exchange = {block: other, other: block}
        return Schedule(tuple(exchange.get(b, b) for b in self.order), self.n_blocks, self.groups)

    def repeat(self, start: int, length: int = 1, times: int = 1) -> Schedule:
        """Each block of the window ``start … start+length−1`` runs ``1 + times`` times in a row."""
        start = self._block(start, "repeat")
        length, times = _whole(length, "repeat: length"), _whole(times, "repeat: times")
        if length < 1 or times < 1:
            raise OptionError(f"repeat:{start}+{length}x{times}: a window needs length ≥ 1 and times ≥ 1.")
        if length > self.n_blocks:
            raise OptionError(
                f"repeat:{start}+{length}: a window of {length} blocks is longer than the model; allowed: 1 to "
                f"{self.n_blocks}."
            )
        if start + length > self.n_blocks:
            raise OptionError(
                f"repeat:{start}+{length}x{times}: a window needs an end within {self.n_blocks} blocks; at length "
                f"{length} the last start is {self.n_blocks - length}."
            )
        window = range(start, start + length)
        idle = next((block for block in window if block not in self.order), None)
        if idle is not None:
            raise OptionError(
                f"repeat:{start}+{length}x{times}: block {idle} does not run in this schedule ({self}); "
                "name blocks that do."
            )
        self._require_alone(window, f"repeat:{start}+{length}x{times}")
        _require_steps(
            len(self) + times * sum(block in window for block in self.order), f"repeat:{start}+{length}x{times}: "
        )
        order = tuple(b for block in self.order for b in [block] * (1 + times if block in window else 1))
        return Schedule(order, self.n_blocks, self.groups)

    def parallel(self, *blocks: int) -> Schedule:
        """``blocks``, neighbours in this order, read the same stream, and what each contributes is added.

        A single block is in parallel with nothing: the schedule is unchanged. What a block passes on next to the stream
        is of no use to the others of its group.

        Raises:
            OptionError: no block, a block twice, one that does not run exactly once, or blocks that are no neighbours.
        """
        if not blocks:
            raise OptionError("parallel: name at least one block, for example parallel:3+4.")
        return Schedule(self.order, self.n_blocks, (*self.groups, blocks))

    @classmethod
    def parse(cls, text: str, n_blocks: int, loop: Sequence[Sequence[int]] = ()) -> Schedule:
        """Read a schedule from text.

        The text is ``standard``, ``drop:5``, ``swap:3``, ``repeat:8+5`` (blocks 8…12 twice), ``repeat:8+5x2`` (three
        times), ``parallel:3+4`` or ``parallel:3-5`` (blocks that read the same stream), ``order:0-2-1``, or several of
        these joined by commas and applied in turn. Of a looped model ``dropruns:1`` leaves out block 1 of the loop in
        all loops, and ``LOOP.BLOCK`` stands for a single run: ``drop:2.1`` leaves out block 1 in loop 2.

        Args:
            loop: for each block of a loop its runs, in a model that loops.

        Raises:
            OptionError: unknown word, missing or malformed number, block out of range, too many steps.
        """
        if not isinstance(text, str):
            raise OptionError(f"A schedule is written as a text such as 'drop:5'; {text!r} given.")
        schedule = cls.standard(n_blocks)
        for step in read_steps(text, loop):
            schedule = schedule._apply(step)
        return schedule

    @classmethod
    def of(cls, schedule: object, n_blocks: int, loop: Sequence[Sequence[int]] = ()) -> Schedule:
        """Return a schedule for a model of ``n_blocks``, from itself, its text, or a plan that ``prune`` made.

        Args:
            loop: as for ``parse``.

        Raises:
            OptionError: none of these, or made for another number of blocks.
        """
        order = schedule.as_schedule() if isinstance(schedule, Scheduling) else schedule
        if not isinstance(order, Schedule | str):
            raise OptionError(f"A schedule is a Schedule or a text such as 'drop:5'; {describe_value(order)} given.")
        chosen = cls.parse(order, n_blocks, loop) if isinstance(order, str) else order
        if chosen.n_blocks != n_blocks:
            raise OptionError(
                f"The schedule is made for {chosen.n_blocks} blocks and this model has {n_blocks}; make it with "
                f"Schedule.standard({n_blocks}), or give its text."
            )
        return chosen

    def _apply(self, step: OrderStep) -> Schedule:
        name, numbers, text = step
        match name:
            case "standard":
                return self
            case "order":
                self._require_alone(self.order, text)
                return Schedule(numbers, self.n_blocks)
            case "parallel":
                return self.parallel(*numbers)
            case "repeat":
                return self.repeat(*numbers)
            case "swap":
                return self.swap(*numbers)
            case _:
                return self.drop_runs(numbers)

    @property
    def is_standard(self) -> bool:
        """Every block once, in order."""
        return self.order == tuple(range(self.n_blocks)) and not self.groups

    @property
    def clean_prefix(self) -> int:
        """How many leading steps are those of the standard schedule."""
        prefix = next((i for i, block in enumerate(self.order) if block != i), len(self.order))
        return min([prefix, *(self.order.index(group[0]) for group in self.groups)])

    @property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """The blocks by the stream that they read: one alone, or those of a group together."""
        group_of = {group[0]: group for group in self.groups}
        followers = {block for group in self.groups for block in group[1:]}
        return tuple(group_of.get(block, (block,)) for block in self.order if block not in followers)

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)

    def __str__(self) -> str:
        """Return the text that commands and ``parse`` take, such as ``drop:3,drop:7``."""
        order = write_order(self.order, self.n_blocks)
        changes = [] if self.groups and order == "standard" else [order]
        return ",".join([*changes, *map(write_group, self.groups)])

    @property
    def in_words(self) -> str:
        """The order as runs of blocks, such as ``0…2 4…6 of 7 blocks``; ``3+4`` for blocks in parallel."""
        return f"{stages_in_words(self.stages)} of {self.n_blocks} blocks"

    def _group(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Return the blocks of a group in the order in which they stand.

        Raises:
            OptionError: a block twice, one that does not run exactly once, or blocks that are no neighbours.
        """
        if isinstance(blocks, str | bytes) or not isinstance(blocks, Iterable):
            raise OptionError(f"A group of parallel blocks is a list such as [3, 4]; {describe_value(blocks)} given.")
        require_no_dict(blocks, "parallel")
        group = [self._block(block, "parallel") for block in blocks]
        text = f"parallel:{'+'.join(map(str, group))}"
        named, runs = Counter(group), Counter(self.order)
        for block in group:
            if named[block] > 1:
                raise OptionError(f"{text}: block {block} is named twice; name each once.")
            if runs[block] != 1:
                times = f"runs {runs[block]} times" if runs[block] else "does not run"
                raise OptionError(f"{text}: block {block} {times} in this schedule; name blocks that run once.")
        places = [place for place, block in enumerate(self.order) if block in named]
        if places and places[-1] - places[0] >= len(places):
            raise OptionError(
                f"{text}: these blocks are no neighbours in this schedule, so they have no common place; name "
                "those between them too, or leave these out first."
            )
        return tuple(self.order[place] for place in places)

    def _require_alone(self, blocks: Iterable[int], step: str) -> None:
        """Refuse to drop, move or repeat a block of a group.

        Raises:
            OptionError: with the group.
        """
        for group in self.groups:
            if shared := sorted(set(group) & set(blocks)):
                raise OptionError(
                    f"{step}: block {shared[0]} runs in parallel with others ({write_group(group)}); change the order "
                    "first, and then name the blocks in parallel."
                )

    def _block(self, block: int, what: str) -> int:
        number = _whole(block, f"{what}: a block")
        if not 0 <= number < self.n_blocks:
            raise OptionError(
                f"{what}: block {number} is out of range; this model has {self.n_blocks} blocks, "
                f"0 to {self.n_blocks - 1}."
            )
        return number


def require_form(text: str) -> None:
    """Refuse a text that is a schedule of no model, however many blocks it has.

    Raises:
        OptionError: as ``Schedule.parse`` of a model of just enough blocks. What counts loops is left to a model.
    """
    if not names_runs(text) and not text.strip().startswith("loops"):
        Schedule.parse(text, fewest_blocks(text))


def _whole(value: object, what: str) -> int:
    try:
        return operator.index(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except TypeError as error:
        raise OptionError(f"{what} is a whole number; {describe_value(value)} given.") from error


def _number_of_blocks(value: int) -> int:
    number = _whole(value, "The number of blocks")
    if number < 1:
        raise OptionError(f"A model has at least one block; {number} given.")
    if number > MOST_STEPS:
        raise OptionError(f"A schedule is for a model of at most {MOST_STEPS} blocks; {number} given.")
    return number


def _require_steps(steps: int, what: str = "") -> None:
    if steps > MOST_STEPS:
        raise OptionError(f"{what}a schedule has at most {MOST_STEPS} steps; {steps} asked for.")
