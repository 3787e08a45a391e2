"""The loop of drafts and checks, counted on which tokens an exit would have got right.

From a settled token the first blocks draft n tokens; one full pass checks them, keeps those before the first wrong
one, and adds the token that it predicts behind them itself. A right draft follows the same tokens as the plain
forward, so that what it would be is known from that forward alone. Source: leviathan2023 (greedy case).
"""

from collections.abc import Sequence
from typing import NamedTuple

from bathyscope.core.arrays import BoolArray


class Counts(NamedTuple):
    """What one continuation took.

    Args:
        tokens: that were generated.
        passes: of the whole model.
        checked: drafted tokens that were compared, up to the first wrong one of each draft.
        accepted: those of them that were right.
        drafted: all drafted tokens.
    """

    tokens: int
    passes: int
    checked: int
    accepted: int
    drafted: int


def counts(agrees: BoolArray, draft: int, new_tokens: int) -> Counts:
    """Count one continuation.

    Args:
        agrees: [tokens], whether the exit's likeliest token is the one that follows.
        draft: tokens of a draft; fewer where no more than the full pass's own would be allowed behind them.
        new_tokens: at which ``generate`` stops; a continuation that is shorter ended with the end of text.
    """
    tokens = len(agrees)
    place = passes = checked = accepted = drafted = 0
    while place < tokens:
        room = min(draft, new_tokens - place - 1)
        drafted_agree = agrees[place : place + room]
        right = len(drafted_agree) if drafted_agree.all() else int(drafted_agree.argmin())
        checked += right + (right < len(drafted_agree))
        accepted += right
        # a draft ends with the end of text
        drafted += room if right < len(drafted_agree) else len(drafted_agree)
        passes += 1
        place += right + 1
    return Counts(tokens, passes, checked, accepted, drafted)


def counts_of(tokens: tuple[int, ...], drafts: tuple[tuple[int, ...], ...]) -> Counts:
    """Count a continuation that was generated with drafts."""
    place = checked = accepted = 0
    for draft in drafts:
        pairs = list(zip(draft, tokens[place:]))
        right = next((number for number, (token, other) in enumerate(pairs) if token != other), len(pairs))
        checked += right + (right < len(pairs))
        accepted += right
        place += right + 1
    return Counts(len(tokens), len(drafts), checked, accepted, sum(map(len, drafts)))


def total(counted: Sequence[Counts]) -> Counts:
    """Add up the counts of several continuations."""
    return Counts(*map(sum, zip(*counted)))
