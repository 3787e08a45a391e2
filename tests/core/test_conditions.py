"""Conditions between options: one check, in calls and at a shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.core.calls import takes
from bathyscope.core.conditions import Excludes, Needs, require_conditions
from bathyscope.errors import OptionError
from bathyscope.options import Range


@dataclass(frozen=True)
class Conditional:
    """Options of a made-up verb.

    Args:
        budget: of time.
        until: how sure.
        part: of the work.
        quick: whether it is.
    """

    budget: Annotated[Annotated[float, Range(0)] | None, Needs("until", "is of until", 0.5)] = None
    until: float | None = None
    part: Annotated[str | None, Excludes("until", "are two ways"), Excludes("quick", instead="be slow")] = None
    quick: Annotated[bool, Needs("until", "hurries", 0.5)] = False


@takes(Conditional)
def verb(
    model: object,
    *,
    budget: float | None = None,
    until: float | None = None,
    part: str | None = None,
    quick: bool = False,
) -> bool:
    """Stand for a verb.

    Args:
        model: any.
        ...: the options of ``Conditional``.
    """
    return True


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"budget": 3}, "budget=3.0 is of until; give until=0.5 (--until 0.5), or leave budget out."),
    ({"budget": 0}, "budget=0.0 is of until; give until=0.5 (--until 0.5), or leave budget out."),
    ({"until": 1.0, "part": "1/2"}, "part='1/2' and until=1.0 are two ways; leave one of them out."),
    ({"quick": True}, "quick=True hurries; give until=0.5 (--until 0.5), or leave quick out."),
    ({"quick": True, "part": "1/2"}, "part='1/2' and quick=True do not go together; be slow."),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        verb("any", **options)
    assert str(caught.value) == message


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "budget": st.sampled_from([None, 0.0, 2.0]),
            "until": st.sampled_from([None, 0.5]),
            "part": st.sampled_from([None, "1/2"]),
            "quick": st.booleans(),
        },
    )
)
def test_a_call_and_a_shell_are_refused_alike(options: Mapping[str, Any]) -> None:
    """By the truth table, and whether a default is typed or left out."""
    given_names = {name for name, value in options.items() if value is not None and value is not False}
    wrong = bool(given_names & {"budget", "quick"}) and "until" not in given_names
    wrong |= "part" in given_names and bool(given_names & {"until", "quick"})
    outcomes = []
    for call in (lambda: verb("any", **options), lambda: require_conditions(Conditional, options)):
        try:
            call()
            outcomes.append("")
        except OptionError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    assert bool(outcomes[0]) is wrong


def test_values_that_equal_nothing_as_a_whole_are_given() -> None:
    with pytest.raises(OptionError, match="budget=an object of type ndarray is of until"):
        require_conditions(Conditional, {"budget": np.zeros((2, 2))})


def test_help_says_the_conditions() -> None:
    assert "budget: of time; allowed: 0 or more. Needs ``until``." in str(verb.__doc__)
    assert "part: of the work. Not with ``until``. Not with ``quick``." in str(verb.__doc__)
