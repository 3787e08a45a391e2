"""A prompt that is given several times is one draw: every interval and test is that of the prompts given once."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves

import bathyscope
from bathyscope import Prompt, Run
from bathyscope.errors import OptionError
from bathyscope.pages.head.numbers import read_profile
from bathyscope.prompts.parts import COPY_OF, drawn_together

pytestmark = pytest.mark.filterwarnings("ignore")
MEASURES = ["residual", "lens", "skip", "drop", "effective_depth", "stages"]
IDS = np.random.default_rng(0).integers(2, 60, (6, 14)).tolist()


@functools.cache
def surveyed(times: int) -> Run:
    """Six prompts in two groups, each several times."""
    prompts = [
        Prompt(ids=ids, id=f"{number}-{copy}", answer_tokens=2, labels={"level": number % 2})
        for number, ids in enumerate(IDS)
        for copy in range(times)
    ]
    return bathyscope.survey(waves.loaded("llama"), prompts, MEASURES, progress=False)


def assert_alike(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("times", [2, 5])
def test_readings_have_the_intervals_of_prompts_given_once(times: int) -> None:
    one, many = surveyed(1).verdict, surveyed(times).verdict
    for name in ("half", "tokens_90", "readable", "own", "later"):
        first, second = getattr(one, name), getattr(many, name)
        assert_alike([second.value, second.low, second.high], [first.value, first.low, first.high])
    assert np.isfinite([one.half.low, one.own.low]).all()
    assert many.copies == len(IDS) * (times - 1)


def test_what_a_page_draws_has_them_too() -> None:
    one, many = (read_profile(surveyed(times)) for times in (1, 5))
    assert_alike([(mark.low, mark.high) for mark in many.marks], [(mark.low, mark.high) for mark in one.marks])
    assert one.costs is not None
    assert many.costs is not None
    assert_alike([many.costs.low, many.costs.high], [one.costs.low, one.costs.high])


def test_derived_measures_have_them_too() -> None:
    one, many = (surveyed(times)["effective_depth"] for times in (1, 5))
    assert_alike([many["ci_low"], many["ci_high"]], [one["ci_low"], one["ci_high"]])


def test_groups_and_comparisons_find_what_they_find_in_prompts_given_once() -> None:
    one, many = (bathyscope.group(surveyed(times), by="level", seed=1) for times in (1, 5))
    for name in ("difference_low", "difference_high", "p_value"):
        assert_alike(many.data[name], one.data[name])
    # an interval of two runs on other prompts: copies on one side are no more prompts
    others = np.random.default_rng(1).integers(2, 60, (3, 14)).tolist()
    against = bathyscope.survey(waves.loaded("llama"), others, MEASURES, progress=False)
    found, expected = (bathyscope.compare([against, surveyed(times)], paired=False, seed=1).data for times in (5, 1))
    for name in ("ci_low", "ci_high", "p_value"):
        assert_alike(found[name], expected[name])


def test_written_answers_count_once() -> None:
    model = waves.loaded("llama")
    questions = np.random.default_rng(4).integers(2, 60, (9, 8)).tolist()
    written = bathyscope.survey(model, questions, ["lens"], write=1, progress=False).prompts
    # every third is asked for another token than the model writes
    answers = [prompt.ids[-1] if place % 3 else (prompt.ids[-1] + 1) % 60 for place, prompt in enumerate(written)]
    found = []
    for times in (1, 4):
        prompts = [
            Prompt(ids=[*question, answer], answer_tokens=1)
            for question, answer in zip(questions, answers)
            for _ in range(times)
        ]
        run = bathyscope.survey(model, prompts, ["lens"], write=1, progress=False)
        found.append(bathyscope.written(run))
    for name in found[0].data.data_vars:
        assert_alike(found[1].data[name], found[0].data[name])
    assert (found[0].prompts, found[0].solved) == (9, 6)
    assert (found[1].prompts, found[1].solved) == (36, 24)


def test_one_prompt_has_no_interval_however_often_it_is_given() -> None:
    run = bathyscope.survey(waves.loaded("llama"), [IDS[0]] * 8, MEASURES, progress=False)
    assert np.isnan([run.verdict.half.low, run.verdict.own.low]).all()
    assert "All 8 prompts are copies of one: an interval needs at least two different prompts" in run.verdict.text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9))
def test_what_either_division_has_together_lies_together(numbers: list[tuple[int, int]]) -> None:
    first, second = (np.array(column) for column in zip(*numbers))
    together = drawn_together(first, second)
    assert together is not None
    # by hand: links are followed until nothing joins any more
    group = list(range(len(numbers)))
    for _ in numbers:
        for a, b in itertools.combinations(range(len(numbers)), 2):
            if first[a] == first[b] or second[a] == second[b] or group[a] == group[b]:
                group = [group[a] if each == group[b] else each for each in group]
    for a, b in itertools.combinations(range(len(numbers)), 2):
        assert (together[a] == together[b]) == (group[a] == group[b])


def test_what_is_stored_tells_copies_by_its_prompts_alone(tmp_path: Path) -> None:
    """And a page lists labels of the user's own."""
    run = surveyed(2).save(tmp_path / "run")
    stored = [name for measure in run for name in run.tree[measure].coords]
    assert COPY_OF not in stored
    assert run["lens"][COPY_OF].values.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    page = bathyscope.report([run], tmp_path / "page.html").read_text(encoding="utf-8")
    assert COPY_OF not in page
    assert "level" in page
    # an older run keeps no tokens, and says nothing of copies
    (tmp_path / "run" / "prompts.jsonl").unlink()
    older = replace(run, files={})
    assert (older.copies, older.clusters()) == (0, None)


@pytest.mark.parametrize("label", [3, ["level"], True])
def test_a_label_of_clusters_is_a_text(label: Any) -> None:
    with pytest.raises(OptionError, match="label takes a text"):
        surveyed(2).clusters(label)
