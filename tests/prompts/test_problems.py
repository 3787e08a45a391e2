from __future__ import annotations

import hashlib
import re

import pytest

from bathyscope.prompts.problems import MAX_STEPS, Kind, generate, to_prompt
from bathyscope.prompts.tasks import Problem

EQUATION = re.compile(r"(-?\d+(?: [-+*/] -?\d+)+) = (-?\d+)")


def evaluated(expression: str) -> int:
    """Python's own arithmetic, after making sure that nothing but digits and operators is evaluated."""
    assert re.fullmatch(r"[-+*/\d ]+", expression)
    value = eval(expression)
    assert value == int(value), f"{expression} is not a whole number"
    return int(value)


@pytest.mark.parametrize("steps", range(1, MAX_STEPS + 1))
def test_word_problems_have_one_true_equation_for_each_step(steps: int) -> None:
    for problem in generate("word", 300, seed=steps, steps=steps):
        lines = (problem.steps or "").split("\n")
        assert len(lines) == steps == problem.labels["steps"]
        for line in lines:
            [(left, right)] = EQUATION.findall(line)
            assert evaluated(left) == int(right)
        assert int(problem.answer) == int(EQUATION.findall(lines[-1])[0][1])
        assert int(problem.answer) > 0


def test_word_problems_are_solved_from_numbers_that_were_told_or_worked_out_before() -> None:
    for problem in generate("word", 500, seed=5):
        known = set(re.findall(r"\d+", problem.question))
        for left, right in EQUATION.findall(problem.steps or ""):
            assert set(re.findall(r"\d+", left)) <= known
            known.add(right)


@pytest.mark.parametrize("steps", range(1, MAX_STEPS + 1))
@pytest.mark.parametrize("digits", [1, 2, 4])
def test_sums_agree_with_python(steps: int, digits: int) -> None:
    for problem in generate("sum", 60, seed=9, steps=steps, digits=digits):
        [asked] = re.findall(r"\d+(?: [-+*] \d+)+", problem.question)
        operands = re.findall(r"\d+", asked)
        assert len(operands) == steps + 1
        assert {len(operand) for operand in operands} == {digits}
        assert int(problem.answer) == evaluated(asked)
        if steps == 1:
            assert problem.steps is None
            continue
        equations = EQUATION.findall(problem.steps or "")
        assert len(equations) == steps
        assert all(evaluated(left) == int(right) for left, right in equations)
        for reduced in re.findall(r"so it is (.*)\.", problem.steps or ""):
            assert evaluated(reduced) == int(problem.answer)


def test_a_seed_fixes_the_problems_and_their_number_does_not_matter() -> None:
    assert generate("word", 20, seed=3) == generate("word", 50, seed=3)[:20]
    assert generate("word", 20, seed=3) != generate("word", 20, seed=4)
    assert generate("sum", 20, seed=3) != generate("sum", 20, seed=3, digits=3)


def test_the_generator_is_the_same_on_every_platform() -> None:
    text = "\n".join(
        problem.question + (problem.steps or "") + problem.answer
        for kind in ("word", "sum")
        for problem in generate(kind, 100, seed=2024)
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "151f914c584002f8"


def test_text_is_varied() -> None:
    problems = generate("word", 1000, seed=1)
    assert len({problem.question for problem in problems}) > 990
    assert {problem.labels["steps"] for problem in problems} == set(range(1, MAX_STEPS + 1))
    # The frame of a problem is what is left of its words when numbers are taken out.
    frames = {re.sub(r"\d+", "#", problem.question) for problem in problems}
    assert len(frames) > 900


def test_prompt_ends_with_the_answer_and_is_labelled_by_difficulty() -> None:
    problem = Problem("How many?", "5", "There are 2 + 3 = 5 cups.", {"steps": 1, "kind": "word"})
    prompt = to_prompt(problem, id="cups")
    assert prompt.text == "Problem: How many?\nAnswer: There are 2 + 3 = 5 cups.\nThe final answer is 5"
    assert prompt.answer == "5"
    assert prompt.id == "cups"
    assert prompt.labels == {"steps": 1, "kind": "word"}
    labels = {"steps": 1, "kind": "addition", "digits": 1}
    direct = to_prompt(Problem("Give the answer directly: 2 + 3 =", "5", labels=labels))
    assert direct.text == "Give the answer directly: 2 + 3 = 5"
    assert direct.labels == {"steps": 1, "kind": "addition", "digits": 1}


@pytest.mark.parametrize(("kind", "sign"), [("addition", "+"), ("multiplication", "*")])
@pytest.mark.parametrize("digits", [1, 3, 9])
def test_single_operations_agree_with_python(kind: Kind, sign: str, digits: int) -> None:
    problems = generate(kind, 200, seed=3, digits=digits)
    for problem in problems:
        left, operator, right = problem.question.removeprefix("Give the answer directly: ").removesuffix(" =").split()
        assert operator == sign
        assert {len(left), len(right)} == {digits}
        assert "0" not in (left[0], right[0])
        assert int(problem.answer) == evaluated(f"{left} {sign} {right}")
        assert (problem.steps, problem.labels) == (None, {"steps": 1, "kind": kind, "digits": digits})
    assert len({problem.question for problem in problems}) > 60
    assert generate(kind, 50, seed=3, digits=digits) == problems[:50]
    assert generate(kind, 50, seed=4, digits=digits) != problems[:50]
