from __future__ import annotations

import ast
from collections import Counter

import pytest
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks import SPLITS, Problem, task
from bathyscope.prompts.tasks.nested_arithmetic import shallowest

SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def expression(problem: Problem) -> str:
    text, colon = problem.question[:-1], problem.question[-1]
    assert colon == ":"
    return text


def value(text: str, modulus: int = 10) -> int:
    return int(eval(text)) % modulus


def tree(problem: Problem) -> ast.expr:
    return ast.parse(expression(problem).strip(), mode="eval").body


def depth(node: ast.expr) -> int:
    return 1 + max(depth(node.left), depth(node.right)) if isinstance(node, ast.BinOp) else 0


def pairs(node: ast.expr) -> set[str]:
    """Operators one directly in the other, the outer one first."""
    if not isinstance(node, ast.BinOp):
        return set()
    outer = SIGNS[type(node.op)]
    inner = [child for child in (node.left, node.right) if isinstance(child, ast.BinOp)]
    return {outer + SIGNS[type(child.op)] for child in inner} | pairs(node.left) | pairs(node.right)


def operands(text: str) -> list[tuple[int, int]]:
    """Place among the words and number of open brackets of every operand."""
    found, opened = [], 0
    for place, word in enumerate(text.split()):
        opened += (word == "(") - (word == ")")
        if word.isdigit():
            found.append((place, opened))
    return found


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("modulus", [2, 7, 10])
def test_answers_are_what_the_text_evaluates_to(modulus: int, split: str) -> None:
    nested = task("nested_arithmetic", modulus=modulus)
    for index in range(60):
        problem = nested.problem(index, 0, split)  # type: ignore[arg-type]
        assert problem.answer == str(value(expression(problem), modulus))
        assert depth(tree(problem)) == problem.labels["k"] == max(level for _, level in operands(problem.question))
        assert len(operands(problem.question)) == 12


def test_steps_are_true_equations_of_which_the_last_gives_the_answer() -> None:
    nested = task("nested_arithmetic")
    for index in range(100):
        problem = nested.problem(index, 0, "train")
        equations = f"{problem.steps} {problem.answer}".split(" ; ")
        assert len(equations) == 12 - 1
        for equation in equations:
            asked, result = equation.split(" = ")
            assert value(asked) == int(result)
        assert Counter(word for word in (problem.steps or "").split() if word in "+-*") == Counter(
            word for word in problem.question.split() if word in "+-*"
        )


def test_every_k_has_the_same_number_of_words_and_of_each_sign() -> None:
    nested = task("nested_arithmetic", leaves=9, depth=(4, 7))
    problems = [nested.problem(index, 4, split) for index in range(200) for split in SPLITS]
    assert {problem.labels["k"] for problem in problems} == {4, 5, 6, 7, 8}
    counted = {(len(p.question.split()), p.question.count("("), len((p.steps or "").split())) for p in problems}
    assert len(counted) == 1


@pytest.mark.parametrize("k", [4, 6, 8])
def test_answers_are_uniform_and_free_of_first_and_last_operand(k: int) -> None:
    nested = task("nested_arithmetic", depth=k, beyond=(9, 11))
    count = 4000
    answers, hits = Counter[str](), Counter[str]()
    for index in range(count):
        problem = nested.problem(index, 6, "train")
        digits = [word for word in problem.question.split() if word.isdigit()]
        answers[problem.answer] += 1
        hits["first"] += digits[0] == problem.answer
        hits["last"] += digits[-1] == problem.answer
        hits["sum"] += str(sum(map(int, digits)) % 10) == problem.answer
    assert stats.chisquare([answers[str(digit)] for digit in range(10)]).pvalue > 1e-4
    for hit in ("first", "last", "sum"):
        assert stats.binomtest(hits[hit], count, 0.1).pvalue > 1e-4, hit


def test_an_operand_k_deep_decides_the_answer() -> None:
    nested = task("nested_arithmetic")
    for index in range(100):
        problem = nested.problem(index, 0, "extrapolate" if index % 2 else "train")
        words = expression(problem).split()
        deepest = [place for place, level in operands(problem.question) if level == problem.labels["k"]]
        decided = [
            {value(" ".join([*words[:place], str(digit), *words[place + 1 :]])) for digit in range(10)}
            for place in deepest
        ]
        assert set(range(10)) in decided


@pytest.mark.parametrize("pair", ["*-", "-+", "**"])
def test_a_held_out_pair_is_in_all_of_extrapolation_and_nowhere_else(pair: str) -> None:
    nested = task("nested_arithmetic", held_out=pair)
    for index in range(100):
        assert pair not in pairs(tree(nested.problem(index, 0, "train")))
        assert pair not in pairs(tree(nested.problem(index, 0, "interpolate")))
        harder = nested.problem(index, 0, "extrapolate")
        assert pair in pairs(tree(harder))
        assert 4 <= int(harder.labels["k"]) <= 8


def test_extrapolation_reaches_a_chain() -> None:
    nested = task("nested_arithmetic", leaves=6, depth=(3, 4))
    chain = nested.problem(0, 0, "extrapolate")
    assert depth(tree(chain)) == 5
    assert [shallowest(leaves) for leaves in (1, 2, 3, 4, 5, 8, 9, 12, 16, 17)] == [0, 1, 2, 2, 3, 3, 4, 4, 4, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": (3, 5)}, r"depth reaches from 3 to 5; allowed: 4 to 11 \(what 12 operands allow\)"),
        ({"depth": (4, 12)}, "depth reaches from 4 to 12; allowed: 4 to 11"),
        ({"depth": (4, 11)}, r"depth reaches 11, the most that 12 operands allow, and leaves none to extrapolate"),
        ({"beyond": (8, 9)}, r"beyond reaches from 8 to 9; allowed: 9 to 11 \(more than in training, at most what 12"),
        ({"beyond": (9, 10), "held_out": "*-"}, "both say what extrapolation is; give one of them"),
        ({"operators": ("*",)}, r"operators=\('\*',\) has neither \+ nor -"),
        ({"operators": ("+", "/")}, r"operators='/' is unknown.* Allowed: \+, -, \*"),
        ({"held_out": "+/"}, r"held_out='\+/' is not allowed.* Allowed: depth, \+\+, \+-, "),
        ({"operators": ("+", "*"), "held_out": "*+"}, r"held_out='\*\+' leaves \* to stand in '\*'; give more"),
        ({"operators": ("+",), "held_out": "++"}, r"held_out='\+\+' leaves nothing to stand in '\+'"),
        ({"modulus": 1}, "modulus=1 is out of range; allowed: 2 to 100"),
        ({"leaves": 2}, "leaves=2 is out of range; allowed: 3 to 256"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task("nested_arithmetic", **options)
