"""Counts of the draft loop against one that goes token by token."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.surgery.exits.drafting import Counts, counts, counts_of


def by_hand(agrees: list[bool], draft: int, new_tokens: int) -> Counts:
    """One token after another; the end of the list is the end of text where it is shorter than ``new_tokens``."""
    done = passes = checked = accepted = drafted = 0
    while done < len(agrees):
        passes += 1
        right_so_far, ended = True, False
        for _ in range(min(draft, new_tokens - done - 1)):
            drafted += 1
            if right_so_far and not ended:
                checked += 1
                if agrees[done]:
                    accepted += 1
                    done += 1
                    ended = done == len(agrees)
                    if ended:
                        break
                else:
                    right_so_far = False
        if not ended:
            done += 1  # the full pass's own token
    return Counts(len(agrees), passes, checked, accepted, drafted)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 3))
def test_counts_are_those_of_a_loop_over_tokens(agrees: list[bool], draft: int, more: int) -> None:
    assert counts(np.array(agrees), draft, len(agrees) + more) == by_hand(agrees, draft, len(agrees) + more)


def test_an_exit_that_is_always_right_or_never() -> None:
    # three drafted and one of the full pass's own: 4, 4, and the last token alone
    assert counts(np.ones(9, dtype=bool), 3, 9) == Counts(tokens=9, passes=3, checked=6, accepted=6, drafted=6)
    assert counts(np.zeros(9, dtype=bool), 3, 9) == Counts(tokens=9, passes=9, checked=8, accepted=0, drafted=21)


def test_counts_of_a_run_are_read_off_its_drafts() -> None:
    tokens = (5, 6, 7, 8, 9)
    assert counts_of(tokens, ((5, 6), (8, 1), ())) == Counts(tokens=5, passes=3, checked=4, accepted=3, drafted=4)
    # the end of text was drafted, and nothing stands behind it
    assert counts_of(tokens, ((5, 6), (8, 9))) == Counts(tokens=5, passes=2, checked=4, accepted=4, drafted=4)
