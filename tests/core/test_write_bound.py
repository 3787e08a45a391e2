"""Bounds are read from text, and anything else is refused with what is allowed."""

from __future__ import annotations

import pytest

from bathyscope.core.write_bound import WriteBound
from bathyscope.errors import OptionError


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [("clamp:1000", "clamp", 1000.0), (" zero:0.5 ", "zero", 0.5), ("clamp:1e3", "clamp", 1000.0)],
)
def test_a_bound_is_its_kind_and_its_number(text: str, kind: str, value: float) -> None:
    bound = WriteBound.parse(text)
    assert (bound.kind, bound.value) == (kind, value)
    assert WriteBound.parse(str(bound)) == bound == WriteBound.parse(bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clam:5", r"Unknown bound 'clam:5'\. Did you mean 'clamp'\? Write clamp:NUMBER or zero:NUMBER\."),
        ("", r"Unknown bound ''\. Write clamp:NUMBER or zero:NUMBER\."),
        ("clamp", r"'clamp': a bound is a finite number above 0, such as clamp:1000\."),
        ("zero:many", r"'zero:many': a bound is a finite number above 0, such as zero:1000\."),
        ("zero:0", "a bound is a finite number above 0"),
        ("clamp:-3", "a bound is a finite number above 0"),
        ("clamp:inf", "a bound is a finite number above 0"),
        ("clamp:nan", "a bound is a finite number above 0"),
        (1000, r"A bound is a text such as clamp:1000 or zero:1000; 1000 given\."),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        WriteBound.parse(text)


def test_it_says_what_is_done() -> None:
    assert WriteBound.parse("clamp:1000").in_words == "contributions clamped to 1000"
    assert WriteBound.parse("zero:0.25").in_words == "contributions left out beyond 0.25"
