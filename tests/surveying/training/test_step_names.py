"""The step in the name of a checkpoint: read to the last digit and unit, or refused by name."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bathyscope.errors import OptionError
from bathyscope.surveying.training.course import _checkpoints as checkpoints_of
from bathyscope.surveying.training.step_names import has_step, is_only_a_step, step_of

WORDS = st.sampled_from(["checkpoint-", "checkpoint_", "step", "step-", "step_", "Step", "step=", "global_step"])
BEFORE = st.sampled_from(["", "stage1-", "epoch=1-", "stage2-ingredient3-", "run_"])
BEHIND = st.sampled_from(["", "-tokens40B", "-tokens5.5B", "-hf", "_unsharded", ".old", "-of-2000", "_2"])
UNITS = {"": 1, "k": 1000, "K": 1000, "m": 10**6, "M": 10**6, "B": 10**9}


@given(BEFORE, WORDS, st.integers(0, 10**7), st.integers(0, 3), st.sampled_from(sorted(UNITS)), BEHIND)
def test_a_step_is_read_to_its_last_digit_and_unit(
    before: str, word: str, number: int, decimals: int, unit: str, behind: str
) -> None:
    """Of a number of whole digits and decimals, written as people do, comes that times its unit."""
    whole, fraction = divmod(number, 10**decimals)
    digits = f"{whole}.{fraction:0{decimals}}" if decimals else str(whole)
    name = f"{before}{word}{digits}{unit}{behind}"
    assert has_step(name)
    if number * UNITS[unit] % 10**decimals:
        with pytest.raises(OptionError, match="which is no whole one"):
            step_of(name)
    else:
        assert step_of(name) == number * UNITS[unit] // 10**decimals


@given(WORDS, st.integers(1, 999), st.sampled_from(["e3", "b", "kk", "x", "_000", ",000", ".5.2", "k5", "a1", "t"]))
def test_a_number_that_might_be_cut_is_refused(word: str, number: int, behind: str) -> None:
    with pytest.raises(OptionError, match=r"The step in the name of the revision '.*' is no number that can be read"):
        step_of(f"{word}{number}{behind}", "revision")


@given(st.integers(0, 10**5), st.integers(0, 10**5))
def test_two_steps_in_a_name_are_refused_unless_equal(first: int, second: int) -> None:
    name = f"checkpoint-{first}_step{second}"
    if first == second:
        assert step_of(name) == first
    else:
        listed = f"{min(first, second)} and {max(first, second)}"
        with pytest.raises(OptionError, match=rf"tells two steps, {listed}\. Name it such as checkpoint-500"):
            step_of(name)


@pytest.mark.parametrize("name", ["final", "main", "logs", "footsteps", "footstep5", "steps", "checkpoints"])
def test_other_names_tell_none(name: str) -> None:
    assert not has_step(name)
    with pytest.raises(OptionError, match=r"does not tell its step; name it such as checkpoint-500\."):
        step_of(name)


def test_a_folder_of_named_thousands_is_read_in_order(tmp_path: Path) -> None:
    for name in ("step10k", "step100k", "step1.5k", "step10-tokens40B", "logs"):
        (tmp_path / name).mkdir()
    assert sorted(checkpoints_of(tmp_path, ())) == [10, 1500, 10_000, 100_000]
    (tmp_path / "step1.5x").mkdir()
    with pytest.raises(OptionError, match=r"checkpoint 'step1\.5x' is no number"):
        checkpoints_of(tmp_path, ())


def test_one_step_under_two_names_is_refused(tmp_path: Path) -> None:
    for name in ("step1k", "step1000"):
        (tmp_path / name).mkdir()
    with pytest.raises(OptionError, match=r"Two checkpoints are of step 1000: .* Give one of them\."):
        checkpoints_of(tmp_path, ())


@pytest.mark.parametrize(
    ("name", "is_only"),
    [
        *[(name, True) for name in ("step10k", "checkpoint-500", "steps", "checkpoints", "step10-tokens40B")],
        *[(name, False) for name in ("my-step10", "pythia", "step10-large", "lastcheckpoint-3")],
    ],
)
def test_what_a_folder_tells_of_its_training(name: str, is_only: bool) -> None:
    assert is_only_a_step(name) is is_only
