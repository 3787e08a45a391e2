"""Short prompts that two sets nearly share: windows of one text that overlap by most of their tokens.

Short problems share a template, and those of a small task much else. So what a test prompt has in a row from a
calibration prompt counts only where it is more than prompts of one set have from each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import ceil
from typing import Final

from bathyscope.prompts.prompts import Prompts

_LONGEST: Final = 63
"""Tokens of the longest prompt of which half are too few for a run that texts of their own hardly share."""
_MARGIN: Final = 2
"""Tokens by which a run is longer than what chance gives prompts of a small task."""
_ENOUGH: Final = 8
"""Prompts of a set whose pairs are enough to show what prompts of one set share."""
NEARLY_ALL: Final = 0.8
"""Share of a short prompt that makes it nearly a copy."""
_SEVERAL: Final = -1


def nearly_copied(calibration: Prompts, test: Prompts) -> list[str]:
    """Return the names of the short test prompts that a calibration prompt nearly has.

    These have a run of a calibration prompt's tokens that is four fifths of the prompt and more, and longer, by two
    tokens and more, than the largest share of a prompt that others of its set have. Of two sets the one counts
    whose prompts are less alike, so that near copies within one hide nothing. Shorter runs are often chance: many
    sums of two numbers have a number in common.
    """
    short = [prompt for prompt in test if len(prompt) <= _LONGEST]
    if not short:
        return []
    choosing = sorted({prompt.ids for prompt in calibration})
    usual = _usual_share(choosing, sorted({prompt.ids for prompt in short}))
    runs = _longest_runs([prompt.ids for prompt in short], choosing, of_one_set=False)
    return [
        prompt.id
        for prompt, run in zip(short, runs)
        if run >= max(NEARLY_ALL * len(prompt), usual * len(prompt) + _MARGIN)
    ]


def _usual_share(*sets: Sequence[tuple[int, ...]]) -> float:
    """Return the largest share that a prompt has in a row from another one of its set, a half at least."""
    shares = []
    for prompts in sets:
        short = [ids for ids in prompts if len(ids) <= _LONGEST]
        runs = _longest_runs(short, short, of_one_set=True)
        shares.append((len(short) >= _ENOUGH, max((run / len(ids) for run, ids in zip(runs, short)), default=0.0)))
    large = [share for is_large, share in shares if is_large]
    return max(0.5, min(large) if large else max(share for _, share in shares))


def _longest_runs(prompts: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]], of_one_set: bool) -> list[int]:
    """Return for each prompt the tokens of the longest run that another one has; 0 where it is below a half.

    Args:
        of_one_set: both are the same prompts, and a prompt is no other one than itself.
    """
    longest = [0] * len(prompts)
    first = min((ceil(len(ids) / 2) for ids in prompts), default=1)
    going_on = set(range(len(prompts)))
    for length in range(first, max(map(len, prompts), default=0) + 1):
        owners: dict[int, int] = {}
        for number, ids in enumerate(others):
            for run in hashed_runs(ids, length):
                owners[run] = number if owners.get(run, number) == number else _SEVERAL
        # a run of these tokens holds each shorter one, so that a prompt without one has no longer one
        going_on = {
            number for number in going_on if _has_run(prompts[number], length, owners, (number,) if of_one_set else ())
        }
        for number in going_on:
            longest[number] = length
        if not going_on:
            break
    return [run if 2 * run >= len(ids) else 0 for run, ids in zip(longest, prompts)]


def _has_run(ids: tuple[int, ...], length: int, owners: dict[int, int], itself: Collection[int]) -> bool:
    return any(run in owners and owners[run] not in itself for run in hashed_runs(ids, length))


def hashed_runs(ids: tuple[int, ...], length: int) -> Iterator[int]:
    """Return the hash of each run of so many tokens, from the first one on."""
    # hashes in place of runs: those of a long corpus would take many times its memory
    return (hash(ids[start : start + length]) for start in range(len(ids) - length + 1))
