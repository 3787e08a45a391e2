from __future__ import annotations

import random
import subprocess
import sys

import pytest

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks import SPLITS, TASKS, Problem, Split, Task, task
from bathyscope.prompts.tasks.drawing import DrawnProblem, is_held_out

SMALL = {
    "arithmetic": {},
    "nested_arithmetic": {"leaves": 4, "depth": 2, "modulus": 5},
    "permutations": {"factors": (1, 2), "elements": "generators"},
    "pointer_chasing": {"nodes": 5, "hops": (1, 2)},
}
"""Options that leave few different problems, so that splits drawn apart would share many of them."""


def texts(made: Task, split: Split, seed: int, count: int) -> set[str]:
    return {made.problem(index, seed, split).question for index in range(count)}


@pytest.mark.parametrize("name", TASKS)
def test_splits_share_no_problem_whatever_the_seed(name: str) -> None:
    made = task(name, **SMALL[name])
    train = texts(made, "train", 0, 3000) | texts(made, "train", 1, 1000)
    interpolate = texts(made, "interpolate", 1, 600) | texts(made, "interpolate", 2, 200)
    extrapolate = texts(made, "extrapolate", 1, 600)
    assert not train & interpolate
    assert not train & extrapolate
    assert not interpolate & extrapolate
    assert len(interpolate) > 50
    if name != "arithmetic":
        assert train & texts(made, "train", 2, 600), "few problems: seeds draw the same ones again"


def test_the_same_cycle_written_in_another_order_is_on_the_same_side() -> None:
    made = task("pointer_chasing", **SMALL["pointer_chasing"])

    def asked(problem: Problem) -> tuple[frozenset[str], str]:
        arrows, start = problem.question.split(" start ")
        return frozenset(arrows.split(" ; ")), start

    def unordered(split: Split, count: int) -> set[tuple[frozenset[str], str]]:
        problems = (made.problem(index, 0, split) for index in range(count))
        return {
            (frozenset(arrow.removesuffix(" ;") for arrow in arrows), start) for arrows, start in map(asked, problems)
        }

    train, held_out = unordered("train", 3000), unordered("interpolate", 300)
    assert len(train) > 150  # of 24 cycles × 5 starts × 2 numbers of hops, 7 of 8
    assert not train & held_out


@pytest.mark.parametrize("name", TASKS)
def test_a_problem_follows_from_its_number_seed_and_split_alone(name: str) -> None:
    first, second = task(name), task(name)
    for split in SPLITS:
        forwards = [first.problem(index, 5, split) for index in range(40)]
        backwards = [second.problem(index, 5, split) for index in reversed(range(40))]
        assert forwards == backwards[::-1]
        assert forwards != [first.problem(index, 6, split) for index in range(40)]
        assert len({problem.question for problem in forwards}) > 30


def test_problems_are_the_same_in_every_process() -> None:
    code = (
        "from bathyscope.prompts.tasks import TASKS, task; print([task(n).problem(7, 3, 'interpolate') for n in TASKS])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert told == str([task(name).problem(7, 3, "interpolate") for name in TASKS])


@pytest.mark.parametrize(
    ("name", "option", "levels", "alone"),
    [
        ("pointer_chasing", "hops", (1, 4), 3),
        ("permutations", "factors", (1, 4), 3),
        ("nested_arithmetic", "depth", (4, 7), 6),
    ],
)
def test_a_level_s_problems_are_the_same_whichever_levels_stand_beside_it(
    name: str, option: str, levels: tuple[int, int], alone: int
) -> None:
    beyond = (8, 8)  # fixed, since questions are as long as the longest of them
    mixed, single = task(name, **{option: levels}, beyond=beyond), task(name, **{option: alone}, beyond=beyond)
    for turn in range(20):
        expected = mixed.problem(turn * 4 + alone - levels[0], 0, "train")
        assert single.problem(turn, 0, "train") == expected
        assert expected.labels["k"] == alone


@pytest.mark.parametrize("name", TASKS)
def test_labels_and_texts(name: str) -> None:
    made = task(name)
    assert made.lower_bound
    assert made.controls
    for split in SPLITS:
        problem = made.problem(3, 0, split)
        assert problem.labels["task"] == name
        assert problem.labels["split"] == split
        assert isinstance(problem.labels["k"], int)
        plain, written = problem.example(), problem.example(written=True)
        assert plain.text == f"{problem.question} {problem.answer}"
        assert plain.answer == written.answer == f" {problem.answer}"
        assert written.text == " ".join(filter(None, (problem.question, problem.steps, problem.answer)))


def test_a_problem_without_steps_is_written_without() -> None:
    problem = Problem("1 + 1 =", "2")
    assert problem.example(written=True) == problem.example() == ("1 + 1 = 2", 7)


@pytest.mark.parametrize(
    ("index", "split", "message"),
    [
        (0, "test", "pointer_chasing: 'test' is no split.* Allowed: train, interpolate, extrapolate"),
        (0, "extra", r"'extra' is no split. Did you mean 'extrapolate'\?"),
        (-1, "train", "pointer_chasing: problem -1 does not exist; problems are counted from 0"),
        ("0", "train", "pointer_chasing: problem '0' does not exist; problems are counted from 0, in whole numbers"),
    ],
)
def test_refused(index: int, split: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task("pointer_chasing").problem(index, 0, split)  # type: ignore[arg-type]


class OneProblem(Task[int]):
    """A task that has a single problem, which can be on one side only."""

    name = "one"
    lower_bound = controls = ""

    def levels(self, split: Split) -> list[int]:
        return [1]

    def draw(self, rng: random.Random, level: int, split: Split) -> DrawnProblem:
        return DrawnProblem(Problem("1 + 1 =", "2"), "1 + 1")


def test_a_split_that_holds_nothing_is_refused() -> None:
    made = OneProblem()
    full, empty = ("interpolate", "train") if is_held_out("1 + 1") else ("train", "interpolate")
    assert made.problem(0, 0, full).answer == "2"  # type: ignore[arg-type]
    with pytest.raises(
        OptionError, match=f"one: no problem of level 1 is in '{empty}' with these options; allow larger"
    ):
        made.problem(0, 0, empty)  # type: ignore[arg-type]


def test_no_such_task() -> None:
    with pytest.raises(
        OptionError, match=r"'pointer_chase' is no task. Did you mean 'pointer_chasing'\? Allowed: arith"
    ):
        task("pointer_chase")
