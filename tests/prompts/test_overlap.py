"""Short test prompts that calibration prompts nearly have are counted; templates that all share are not."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support import waves

from bathyscope.model.reading import tokenized
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import require_apart

MODEL = waves.loaded("llama")
TOKENS = 48


def read(rows: list[list[int]]) -> Prompts:
    return tokenized(MODEL, rows)


def drawn(draw: np.random.Generator, *shape: int) -> Any:
    """Tokens without the same one twice in a row, which would be taken for padding."""
    return (np.cumsum(draw.integers(1, TOKENS - 1, shape), -1) % (TOKENS - 1)).tolist()


def counted(calibration: list[list[int]], test: list[list[int]]) -> int:
    """How many test prompts the warnings count in all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        require_apart(read(calibration), read(test))
    return sum(int(str(one.message).split(" of ")[0]) for one in caught if "test prompts have" in str(one.message))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(10, 31), st.integers(2, 14), st.data())
def test_windows_that_overlap_are_counted_below_thirty_two_tokens(
    seed: int, window: int, number: int, data: st.DataObject
) -> None:
    """Every window of the test set begins so many tokens behind one of the calibration set."""
    moved = data.draw(st.integers(1, window // 5))
    text = drawn(np.random.default_rng(seed), window * (number + 1))
    starts = range(0, window * number, window)
    calibration = [text[start : start + window] for start in starts]
    assert counted(calibration, [text[start + moved : start + moved + window] for start in starts]) == number


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(6, 30), st.integers(2, 12), st.integers(0, 3))
def test_changed_copies_are_counted_next_to_others(seed: int, length: int, number: int, copied: int) -> None:
    draw = np.random.default_rng(seed)
    calibration = drawn(draw, number, length)
    test = drawn(draw, number, length)
    copied = min(copied, number)
    test[:copied] = [[*row[1:], TOKENS - 1] for row in calibration[:copied]]
    assert counted(calibration, test) == copied


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(5, 10), st.integers(0, 6), st.integers(8, 16))
def test_a_template_that_all_share_is_no_overlap(seed: int, before: int, behind: int, number: int) -> None:
    """Also where it is most of the prompt, as of one number with an instruction around it."""
    draw = np.random.default_rng(seed)
    shared = draw.permutation(16).tolist()
    begin, end = shared[:before], shared[before : before + behind]
    problems = [[*begin, 16 + int(token), *end] for token in draw.permutation(TOKENS - 16)[: 2 * number]]
    assert counted(problems[:number], problems[number:]) == 0


def test_a_copy_behind_a_template_is_an_overlap() -> None:
    """Eight tokens of a template, then eight of the problem's own, of which a test prompt has all but one."""
    draw = np.random.default_rng(3)
    begin = drawn(draw, 8)
    calibration, test = ([[*begin, *row] for row in drawn(draw, 10, 8)] for _ in range(2))
    assert counted(calibration, test) == 0
    test[4] = [*calibration[7][:-1], TOKENS - 1]
    with pytest.warns(UserWarning, match=r"1 of 10 test prompts have more of their tokens in a row from a calibration"):
        require_apart(read(calibration), read(test))


def test_near_copies_within_one_set_hide_nothing() -> None:
    draw = np.random.default_rng(5)
    calibration = drawn(draw, 9, 16)
    test = drawn(draw, 9, 16)
    calibration.append([*calibration[0][:-1], TOKENS - 1])
    test[0] = [*calibration[0][1:], 3]
    assert counted(calibration, test) == 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(15, 30), st.integers(15, 30))
def test_sums_of_one_template_are_no_overlap(seed: int, chosen: int, judged: int) -> None:
    """Digits of two numbers in one sentence: many sums share half of it and more, those of one set as well."""
    draw = np.random.default_rng(seed)
    sums = draw.permutation(100 * 100)[: chosen + judged]
    digits = [[*divmod(int(number) // 100, 10), *divmod(int(number) % 100, 10)] for number in sums]
    problems = [[20, 21, 22, 23, 24, *row[:2], 25, *row[2:], 26, 27] for row in digits]
    assert counted(problems[:chosen], problems[chosen:]) == 0
