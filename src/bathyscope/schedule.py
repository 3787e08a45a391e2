"""The order in which a model's blocks run, as frozen data.

``Schedule.standard(24).drop(5)`` leaves block 5 out, ``.swap(3)`` runs block 4 before block 3,
``.repeat(8, length=5)`` runs each block of the window 8…12 twice in a row, ``.parallel(3, 4)`` lets blocks 3 and 4 read
the same stream and adds what both contribute. The same schedule drives the analysis and can be applied to a real model.
Source: lad2024 (drop, swap, repeat).
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby, pairwise
from typing import Protocol, runtime_checkable

from bathyscope.errors import OptionError, describe_value, did_you_mean

_STEP = re.compile(r"^(?P<name>[a-z]+)(?::(?P<rest>.*))?$")
_REPEAT = re.compile(r"^(?P<start>\d+)(?:\+(?P<length>\d+))?(?:x(?P<times>\d+))?$")
_ADDRESS = re.compile(r"(?P<loop>\d+)\.(?P<block>\d+)")
_PARALLEL = re.compile(r"^\d+(-\d+)?(\+\d+(-\d+)?)*$")
_NAMES = ("standard", "drop", "swap", "repeat", "parallel", "order")
MOST_STEPS = 10_000
"""Longest schedule, and most blocks of a model: a step costs a call of a block, and memory from the first on."""


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
                    f"{_group_text(second)}: block {shared[0]} runs in parallel already ({_group_text(first)}); name "
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
        for step in (part.strip() for part in text.split(",")):
            name, _, rest = step.partition(":")
            if name == "dropruns":
                schedule = schedule.drop_runs(_runs_of(rest, step, loop))
            else:
                schedule = schedule._apply(_ADDRESS.sub(partial(_step_of, step=step, loop=loop), step))
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

    def _apply(self, step: str) -> Schedule:
        # Each message shows the form that the step should have.
        match = _STEP.match(step)
        name, rest = (match["name"], match["rest"]) if match else (step, None)
        if name == "loops":
            raise OptionError(
                f"{step!r}: another number of loops is another model, which survey(schedule='loops:6') (--schedule) "
                "makes of one that declares where its loops are counted; it stands alone."
            )
        if name not in _NAMES:
            raise OptionError(
                f"Unknown schedule {step!r}.{did_you_mean(name, _NAMES)} "
                "Allowed: standard, drop:5, swap:3, repeat:8+5, repeat:8+5x2, parallel:3+4, order:0-2-1, joined by "
                "commas."
            )
        if name == "standard":
            if rest is not None:
                raise OptionError(f"{step!r}: standard takes nothing after it.")
            return self
        if name == "order":
            if not re.fullmatch(r"\d+(-\d+)*", rest or ""):
                raise OptionError(f"{step!r}: write the blocks joined by dashes, for example order:0-2-1-3.")
            self._require_alone(self.order, step)
            return Schedule(tuple(map(_digits, (rest or "").split("-"))), self.n_blocks)
        if name == "parallel":
            return self.parallel(*self._parallel_blocks(rest or "", step))
        if name == "repeat":
            window = _REPEAT.match(rest or "")
            if window is None:
                raise OptionError(f"{step!r}: write repeat:START+LENGTH or repeat:START+LENGTHxTIMES.")
            return self.repeat(*(_digits(window[part] or "1") for part in ("start", "length", "times")))
        if rest is None or not rest.isdecimal():
            raise OptionError(f"{step!r}: write {name}: and one block index, for example {name}:5.")
        return self.drop(_digits(rest)) if name == "drop" else self.swap(_digits(rest))

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
        if self.groups:
            order = Schedule(self.order, self.n_blocks)
            changes = [] if order.is_standard else [str(order)]
            return ",".join([*changes, *map(_group_text, self.groups)])
        if self.is_standard:
            return "standard"
        if all(before < after for before, after in pairwise(self.order)):
            return ",".join(f"drop:{block}" for block in sorted(set(range(self.n_blocks)) - set(self.order)))
        return self._as_swap() or self._as_repeat() or f"order:{'-'.join(map(str, self.order))}"

    def _as_swap(self) -> str:
        """Return ``swap:3`` where two neighbours changed places and nothing else; empty otherwise."""
        first = self.clean_prefix
        other = list(range(self.n_blocks))
        other[first : first + 2] = other[first : first + 2][::-1]
        return f"swap:{first}" if list(self.order) == other else ""

    def _as_repeat(self) -> str:
        """Return ``repeat:8+5x2`` where the blocks of one window run again in place; empty otherwise."""
        counts = [(block, len(list(runs))) for block, runs in groupby(self.order)]
        again = [(block, count) for block, count in counts if count > 1]
        start, times = again[0] if again else (0, 0)
        window = [(start + step, times) for step in range(len(again))]
        if [block for block, _ in counts] != list(range(self.n_blocks)) or not again or again != window:
            return ""
        return f"repeat:{start}+{len(again)}" + (f"x{times - 1}" if times > 2 else "")

    @property
    def in_words(self) -> str:
        """The order as runs of blocks, such as ``0…2 4…6 of 7 blocks``; ``3+4`` for blocks in parallel."""
        words: list[str] = []
        for is_group, stages in groupby(self.stages, key=lambda stage: len(stage) > 1):
            if is_group:
                words += ["+".join(map(str, stage)) for stage in stages]
            else:
                words += [f"{a}…{b}" if b > a else f"{a}" for a, b in _runs(block for (block,) in stages)]
        text = " ".join(words)
        return f"{text or 'no block'} of {self.n_blocks} blocks"

    def _parallel_blocks(self, rest: str, step: str) -> list[int]:
        """Return the blocks that ``3+4`` or ``3-5`` names."""
        if not _PARALLEL.match(rest):
            raise OptionError(
                f"{step!r}: write parallel: and neighbouring blocks, such as parallel:3+4 or parallel:3-5."
            )
        blocks: list[int] = []
        for term in rest.split("+"):
            ends = [self._block(_digits(number), "parallel") for number in term.split("-")]
            if ends[-1] < ends[0]:
                raise OptionError(
                    f"{step!r}: a range goes from its first to its last block; write {ends[-1]}-{ends[0]}."
                )
            blocks += range(ends[0], ends[-1] + 1)
        return blocks

    def _group(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Return the blocks of a group in the order in which they stand.

        Raises:
            OptionError: a block twice, one that does not run exactly once, or blocks that are no neighbours.
        """
        if isinstance(blocks, str | bytes) or not isinstance(blocks, Iterable):
            raise OptionError(f"A group of parallel blocks is a list such as [3, 4]; {describe_value(blocks)} given.")
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
                    f"{step}: block {shared[0]} runs in parallel with others ({_group_text(group)}); change the order "
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


def _group_text(group: Sequence[int]) -> str:
    """Return ``parallel:3+4``, or ``parallel:3-5`` for three and more that follow each other."""
    if len(group) > 2 and list(group) == list(range(group[0], group[-1] + 1)):
        return f"parallel:{group[0]}-{group[-1]}"
    return f"parallel:{'+'.join(map(str, group))}"


def _runs(blocks: Iterable[int]) -> list[list[int]]:
    """Return the first and the last block of every run of consecutive blocks."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][1] + 1:
            runs[-1][1] = block
        else:
            runs.append([block, block])
    return runs


def require_form(text: str) -> None:
    """Refuse a text that is a schedule of no model, however many blocks it has.

    Raises:
        OptionError: as ``Schedule.parse`` of a model of just enough blocks. What counts loops is left to a model.
    """
    if not names_runs(text) and not text.strip().startswith("loops"):
        Schedule.parse(text, _fewest_blocks(text))


def _fewest_blocks(text: str) -> int:
    """Return the blocks that a model has at least in which the blocks that a text names can run."""
    fewest = 1
    for step in text.split(","):
        name, _, rest = step.strip().partition(":")
        blocks = [_digits(number) for number in re.findall(r"\d+", rest.partition("x")[0])]
        if name == "repeat":
            fewest = max(fewest, sum(blocks[:2]), *(block + 1 for block in blocks[:1]))
        else:
            fewest = max(fewest, *(block + (2 if name == "swap" else 1) for block in blocks), 1)
    return min(fewest, MOST_STEPS)


def names_runs(text: str) -> bool:
    """Whether a text names blocks by runs of a looped model, as ``dropruns:1`` and ``drop:2.1`` do."""
    return "dropruns" in text or _ADDRESS.search(text) is not None


def _runs_of(block: str, step: str, loop: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the runs of a block of the loop."""
    if not loop:
        raise OptionError(f"{step!r}: this model runs no block several times; write drop: and one block index.")
    if not block.isdecimal() or _digits(block) >= len(loop):
        raise OptionError(f"{step!r}: write dropruns: and one block of the loop, 0 to {len(loop) - 1}.")
    return loop[_digits(block)]


def _step_of(address: re.Match[str], step: str, loop: Sequence[Sequence[int]]) -> str:
    """Return the number of the run that ``LOOP.BLOCK`` names."""
    if not loop:
        raise OptionError(
            f"{step!r}: this model has no loops to name a run by; write a block index, for example drop:5."
        )
    number, block = _digits(address["loop"]), _digits(address["block"])
    if block >= len(loop) or number >= len(loop[block]):
        raise OptionError(
            f"{step!r}: {address[0]} is no run of a block; allowed: loops 0 to {len(loop[0]) - 1}, blocks 0 to "
            f"{len(loop) - 1}, as in drop:1.0."
        )
    return str(loop[block][number])


def _whole(value: object, what: str) -> int:
    try:
        return operator.index(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except TypeError as error:
        raise OptionError(f"{what} is a whole number; {describe_value(value)} given.") from error


def _digits(text: str) -> int:
    """A number written out; Python itself refuses to read one of thousands of digits."""
    if len(text) > 18:
        raise OptionError(f"A schedule names blocks by numbers of a few digits; one of {len(text)} digits given.")
    return int(text)


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
