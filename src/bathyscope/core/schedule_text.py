"""Schedules as text: ``drop:5,swap:3`` read step by step, and an order of blocks written so, or in words.

What the steps do is in ``schedule.py``; here are their words and numbers alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean

MOST_STEPS: Final = 10_000
"""Longest schedule, and most blocks of a model: a step costs a call of a block, and memory from the first on."""
_STEP = re.compile(r"^(?P<name>[a-z]+)(?::(?P<rest>.*))?$")
_REPEAT = re.compile(r"^(?P<start>\d+)(?:\+(?P<length>\d+))?(?:x(?P<times>\d+))?$")
_ADDRESS = re.compile(r"(?P<loop>\d+)\.(?P<block>\d+)")
_PARALLEL = re.compile(r"^\d+(-\d+)?(\+\d+(-\d+)?)*$")
_NAMES: Final = ("standard", "drop", "swap", "repeat", "parallel", "order")


class OrderStep(NamedTuple):
    """One step of a schedule that was written out.

    Args:
        name: ``standard``, ``drop``, ``drop_runs``, ``swap``, ``repeat``, ``parallel`` or ``order``.
        numbers: blocks; of a repeat the first block, the length and the times.
        text: as it was written.
    """

    name: str
    numbers: tuple[int, ...]
    text: str


def read_steps(text: str, loop: Sequence[Sequence[int]] = ()) -> Iterator[OrderStep]:
    """The steps of a text in turn.

    Args:
        loop: for each block of a loop its runs, in a model that loops.

    Raises:
        OptionError: unknown word, missing or malformed number, a run that the loop does not have.
    """
    steps = text.split(",")
    if len(steps) > MOST_STEPS:
        raise OptionError(f"A schedule of {len(steps):,} steps; at most {MOST_STEPS:,} are read. Write an order:.")
    for step in (part.strip() for part in steps):
        name, _, rest = step.partition(":")
        if name == "dropruns":
            yield OrderStep("drop_runs", tuple(_runs_of(rest, step, loop)), step)
        else:
            yield _read_step(_ADDRESS.sub(partial(_step_of, step=step, loop=loop), step))


def _read_step(step: str) -> OrderStep:
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
            "Allowed: standard, drop:5, swap:3, repeat:8+5, repeat:8+5x2, parallel:3+4, order:0-2-1, joined by commas."
        )
    return OrderStep(name, tuple(_numbers(name, rest, step)), step)


def _numbers(name: str, rest: str | None, step: str) -> list[int]:
    """Return the numbers behind the name of a step."""
    if name == "standard":
        if rest is not None:
            raise OptionError(f"{step!r}: standard takes nothing after it.")
        return []
    if name == "order":
        if not re.fullmatch(r"\d+(-\d+)*", rest or ""):
            raise OptionError(f"{step!r}: write the blocks joined by dashes, for example order:0-2-1-3.")
        return list(map(_digits, (rest or "").split("-")))
    if name == "parallel":
        return _parallel_blocks(rest or "", step)
    if name == "repeat":
        window = _REPEAT.match(rest or "")
        if window is None:
            raise OptionError(f"{step!r}: write repeat:START+LENGTH or repeat:START+LENGTHxTIMES.")
        return [_digits(window[part] or "1") for part in ("start", "length", "times")]
    if rest is None or not rest.isdecimal():
        raise OptionError(f"{step!r}: write {name}: and one block index, for example {name}:5.")
    return [_digits(rest)]


def _parallel_blocks(rest: str, step: str) -> list[int]:
    """Return the blocks that ``3+4`` or ``3-5`` names."""
    if not _PARALLEL.match(rest):
        raise OptionError(f"{step!r}: write parallel: and neighbouring blocks, such as parallel:3+4 or parallel:3-5.")
    blocks: list[int] = []
    for term in rest.split("+"):
        ends = [_digits(number) for number in term.split("-")]
        if ends[-1] < ends[0]:
            raise OptionError(f"{step!r}: a range goes from its first to its last block; write {ends[-1]}-{ends[0]}.")
        # no model has that many blocks: its ends are enough to be refused, and a list of all would fill memory
        blocks += range(ends[0], ends[-1] + 1) if ends[-1] < MOST_STEPS else ends
        if len(blocks) > MOST_STEPS:
            # a few letters name ten thousand blocks, and a text may say them as often as it likes
            raise OptionError(f"{elided(step, 60)!r} names more than {MOST_STEPS:,} blocks, as no schedule does.")
    return blocks


def fewest_blocks(text: str) -> int:
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


def _digits(text: str) -> int:
    """A number written out; Python itself refuses to read one of thousands of digits."""
    if len(text) > 18:
        raise OptionError(f"A schedule names blocks by numbers of a few digits; one of {len(text)} digits given.")
    return int(text)


def write_order(order: Sequence[int], n_blocks: int) -> str:
    """Write an order of blocks as the shortest text that ``read_steps`` takes, such as ``drop:3,drop:7``."""
    standard = list(range(n_blocks))
    if list(order) == standard:
        return "standard"
    if all(before < after for before, after in pairwise(order)):
        return ",".join(f"drop:{block}" for block in sorted(set(standard) - set(order)))
    return _as_swap(order, n_blocks) or _as_repeat(order, n_blocks) or f"order:{'-'.join(map(str, order))}"


def _as_swap(order: Sequence[int], n_blocks: int) -> str:
    """Return ``swap:3`` where two neighbours changed places and nothing else; empty otherwise."""
    first = next((place for place, block in enumerate(order) if block != place), len(order))
    other = list(range(n_blocks))
    other[first : first + 2] = other[first : first + 2][::-1]
    return f"swap:{first}" if list(order) == other else ""


def _as_repeat(order: Sequence[int], n_blocks: int) -> str:
    """Return ``repeat:8+5x2`` where the blocks of one window run again in place; empty otherwise."""
    counts = [(block, len(list(runs))) for block, runs in groupby(order)]
    again = [(block, count) for block, count in counts if count > 1]
    start, times = again[0] if again else (0, 0)
    window = [(start + step, times) for step in range(len(again))]
    if [block for block, _ in counts] != list(range(n_blocks)) or not again or again != window:
        return ""
    return f"repeat:{start}+{len(again)}" + (f"x{times - 1}" if times > 2 else "")


def write_group(group: Sequence[int]) -> str:
    """Write ``parallel:3+4``, or ``parallel:3-5`` for three and more that follow each other."""
    if len(group) > 2 and list(group) == list(range(group[0], group[-1] + 1)):
        return f"parallel:{group[0]}-{group[-1]}"
    return f"parallel:{'+'.join(map(str, group))}"


def stages_in_words(stages: Sequence[Sequence[int]]) -> str:
    """Write runs of blocks, such as ``0…2 4…6``; ``3+4`` for blocks in parallel."""
    words: list[str] = []
    for is_group, alike in groupby(stages, key=lambda stage: len(stage) > 1):
        if is_group:
            words += ["+".join(map(str, stage)) for stage in alike]
        else:
            words += [f"{a}…{b}" if b > a else f"{a}" for a, b in _runs(block for (block,) in alike)]
    return " ".join(words) or "no block"


def _runs(blocks: Iterable[int]) -> list[list[int]]:
    """Return the first and the last block of every run of consecutive blocks."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][1] + 1:
            runs[-1][1] = block
        else:
            runs.append([block, block])
    return runs
