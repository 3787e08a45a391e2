from __future__ import annotations

import json
import re
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import yaml
from hypothesis import given

from bathyscope.core.text import (
    elided,
    json_in_markdown,
    left_over_place,
    legible,
    level_text,
    literal_markdown,
    scaled,
    signed,
    true_minus,
    without_places,
)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("plain, ünïcode 語 – and $signs$", "plain, ünïcode 語 – and $signs$"),
        ("a\x1b[31mred\x07", r"a\x1b[31mred\x07"),
        ("two\r\nlines\tand", r"two\r\nlines\tand"),
        ("turned \u202eround", r"turned \u202eround"),
        ("half \udc80 letter", r"half \udc80 letter"),
        ("no letter \uffff", r"no letter \uffff"),
        ("fixed\xa0blank, \u200cjoiners\u200d", "fixed\xa0blank, \u200cjoiners\u200d"),
        (7, "7"),
    ],
)
def test_what_acts_is_seen_and_the_rest_stays(given: object, seen: str) -> None:
    assert legible(given) == seen
    legible(given).encode("utf-8")


def test_what_is_wanted_is_kept() -> None:
    assert legible("two\nlines\x1b", keep="\n") == "two\nlines" + r"\x1b"


def test_long_texts_end_in_an_ellipsis() -> None:
    assert elided("short", 5) == "short"
    assert elided("longer", 5) == "long…"
    assert elided("a\x1bb", 4) == r"a\x…"


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.7e6, "1 G"), (999.4e6, "999 M"), (1.5436e9, "1.54 G"), (999.9, "1 k"), (12, "12 "), (0, "0 ")],
)
def test_a_number_is_rounded_before_its_prefix_is_chosen(value: float, text: str) -> None:
    assert scaled(value) == text


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("a|b <script>&amp;", r"a\|b &lt;script&gt;&amp;amp;"),
        ("use_cache=False, _emphasis_ *b* `c`", r"use_cache=False, \_emphasis\_ \*b\* \`c\`"),
        ("![x](http://y) [z]", r"!\[x\](http://y) \[z\]"),
        ("line\nend\x1b]0;t\x07\u202e", r"line\\nend\\x1b\]0;t\\x07\\u202e"),
    ],
)
def test_nothing_in_a_literal_text_acts_as_markdown(text: str, literal: str) -> None:
    assert literal_markdown(text) == literal


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_that_is_taken_for_markdown_says_the_same(text: str) -> None:
    written = json_in_markdown(text)
    assert json.loads(written) == text
    # YAML takes no deleted letter as it is, and pairs of surrogates for two letters, with which JSON writes some
    if "\x7f" not in text and max(text, default="") < "\U00010000":
        assert yaml.safe_load(written) == text
    assert not set("<>&`*[]#|~$") & set(written)


@given(st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3), st.integers(1, 4))
def test_a_signed_number_is_0_only_where_it_is(value: float, decimals: int) -> None:
    text = signed(value, decimals)
    assert text[0] == ("-" if value < 0 else "+")
    assert (float(text) == 0) == (value == 0)
    assert abs(float(text) - value) <= 0.5 * 10**-decimals + 1e-9 * abs(value)


PIECES = [
    "a.",
    "a-",
    "a+",
    "a:b",
    "/",
    "\\",
    "../",
    "...",
    ".../",
    "C:\\",
    "C:\\a",
    "%a",
    "%%",
    "%u%\\",
    "~",
    "~a",
    "~.-",
    "~-",
    "~/",
    "'~/",
    "'/a",
    "'/a\"",
    "'\"'\"'",
    "'/'\"'\"'",
    "\"~/'",
    "$a",
    "${",
    "a/",
    "file:",
    "file:/",
    "http://",
    "a://",
    "a.://",
    "%2f",
    "&#47;",
    "\\x2f",
    "/home",
    "/home//",
    "/mnt/",
    "</",
    "</a",
    "x:/",
    "a",
]


@pytest.mark.parametrize("piece", [*PIECES, " a", " a\\a", " -a/a", "'/a\n", "\"/a'/b"])
def test_no_text_is_looked_through_more_than_a_few_times(piece: str) -> None:
    # a pattern that begins anew at every letter would take hours for these; each is read in one pass
    text = piece * (500_000 // len(piece))
    assert len(without_places(text)) <= len(text)
    assert len(left_over_place(text)) <= 60
    assert len(true_minus(text)) == len(text)
    assert len(literal_markdown(text)) >= len(text)


@pytest.mark.parametrize("separator", ["/", "\\", "%2f", "&#47;", "\\x2f"])
@given(before=st.integers(1, 40), behind=st.integers(1, 40))
def test_a_home_is_recognised_behind_any_number_of_separators(separator: str, before: int, behind: int) -> None:
    leftover = left_over_place(f"see {separator * before}Home{separator * behind}ada")
    assert leftover.startswith(f"{separator}Home{separator}")


@pytest.mark.parametrize(
    ("level", "text"),
    [(0.95, "95%"), (0.9, "90%"), (0.975, "97.5%"), (0.995, "99.5%"), (0.9999, "99.99%"), (0.57, "57%"), (0.01, "1%")],
)
def test_a_level_is_written_with_all_of_its_digits(level: float, text: str) -> None:
    assert level_text(level) == text
    assert level_text(np.float64(level)) == text


def test_no_level_is_written_as_a_whole_number() -> None:
    source = Path(__file__).parents[2] / "src"
    lines = [line for path in sorted(source.rglob("*.py")) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if re.search(r"level[^{}]*:\.0[%f]", line, re.IGNORECASE)] == []
