"""Texts of levels that tell no one order of difficulty, and those that do."""

from __future__ import annotations

from typing import Any

import pytest

from bathyscope.prompts.order_faults import order_fault
from bathyscope.prompts.parts import levels_in_order


@pytest.mark.parametrize(
    ("levels", "fault"),
    [
        (["1e3", "20"], "'1e3' is no number that can be read"),
        (["0.5", "1e-3"], "'1e-3' is no number that can be read"),
        (["9", "0x10"], "'0x10' is no number that can be read"),
        (["20", "1_000"], "'1_000' is no number that can be read"),
        (["20", "level 1 000"], "'level 1 000' is no number that can be read"),
        (["30", "2k"], "'2k' has a unit that others lack"),
        (["5%", "0.5"], "'5%' has a unit that others lack"),
        (["900M", "1B"], "'1B' has a unit that others lack"),
        (["v2 level 9", "v2 level 10"], "'v2 level 10' and 'v2 level 9' begin with one number"),
        (["GPT4 trivial", "GPT4 hard"], "'GPT4 hard' and 'GPT4 trivial' begin with one number"),
        (["easy (2)", "hard (1)"], "'hard (1)' and 'easy (2)' tell two orders"),
        (["GPT5 easy", "GPT4 hard"], "'GPT4 hard' and 'GPT5 easy' tell two orders"),
        (["grade-3 v2", "grade-2 v3"], "'grade-2 v3' and 'grade-3 v2' tell two orders"),
    ],
)
def test_numbers_that_are_misread_or_contradicted_tell_no_order(levels: list[str], fault: str) -> None:
    assert order_fault(levels) == fault == order_fault(levels[::-1])


@pytest.mark.parametrize(
    "levels",
    [
        ["Level 1 (easy)", "Level 2 (hard)", "Level 10 (very hard)"],
        ["1-3", "2-4", "4-9"],
        ["3-5", "10"],
        ["1 of 5", "3 of 5"],
        ["1st", "2nd", "3rd", "10th"],
        ["2k", "10K"],
        ["9%", "10%"],
        ["1 step", "2 steps"],
        ["AMC 8", "AMC 10 2020"],
        ["999", "1,000"],
        ["-1", "1/2", "0.75"],
        ["easy", "hard"],
        [1, 2.5],
    ],
)
def test_numbers_in_texts_that_agree_tell_an_order(levels: list[Any]) -> None:
    assert order_fault(levels) == ""
    assert levels_in_order(levels[::-1])[0] == levels
