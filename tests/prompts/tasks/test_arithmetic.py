from __future__ import annotations

import re
from decimal import Decimal, Inexact, localcontext
from fractions import Fraction
from itertools import islice
from operator import add, mul, sub, truediv

import pytest

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks import Problem, Split, task
from bathyscope.prompts.tasks.arithmetic import probes
from bathyscope.prompts.tasks.arithmetic_expressions import based_text, decimal_text, nearest_root
from bathyscope.prompts.tasks.arithmetic_modules import MODULES

NUMBER = r"-?\d+(?:\.\d+)?"
EXPRESSIONS = ("add_sub_multiple", "mul_div_multiple", "mixed")
HARDER = ("add_or_sub", "mul", "div", *EXPRESSIONS)
OPERATIONS = {"+": add, "-": sub, "*": mul, "/": truediv}
SIGNS = {
    "+": (" + ", "plus", "Add"),
    "-": (" - ", "minus"),
    "*": ("*", "times", "Multiply"),
    "/": ("divided", "Divide"),
}


def some(module: str, split: Split = "train", count: int = 150) -> list[Problem]:
    made = task("arithmetic", modules=module)
    return [made.problem(index, 0, split) for index in range(count)]


def words_of(problem: Problem) -> str:
    framed = re.fullmatch(r"Q: (.*) A:", problem.question)
    assert framed is not None
    return framed[1]


def exact(expression: str) -> Fraction:
    """An expression of Python's grammar, every number in it a fraction."""
    return Fraction(eval(re.sub(r"\d+(?:\.\d+)?", lambda number: f"Fraction('{number[0]}')", expression)))


def of_two(problem: Problem) -> tuple[Fraction, str, Fraction]:
    """Two numbers and what is done with them, from the words."""
    words = words_of(problem)
    p, q = (
        re.match(rf"(?:What is |Calculate )?({NUMBER})(?:\s*[-+*]\s*| \w+ (?:by )?)({NUMBER})", words)
        or re.search(rf"({NUMBER}) (?:and|by) ({NUMBER})", words)
    ).groups()  # type: ignore[union-attr]
    rest = words.replace(p, "", 1)
    (sign,) = [sign for sign, marks in SIGNS.items() if any(mark in rest for mark in marks)]
    return Fraction(p), sign, Fraction(q)


def written(problem: Problem) -> str:
    """The expression of a question."""
    return re.sub(r"^(What is the value of|What is|Calculate|Evaluate) ", "", words_of(problem)).rstrip("?.")


@pytest.mark.parametrize("split", ["train", "extrapolate"])
@pytest.mark.parametrize("module", ["add_or_sub", "mul", "div"])
def test_two_numbers(module: str, split: Split) -> None:
    for problem in some(module, split):
        p, sign, q = of_two(problem)
        assert Fraction(problem.answer) == OPERATIONS[sign](p, q)
        assert (sign in "+-") == (module == "add_or_sub")


@pytest.mark.parametrize("split", ["train", "extrapolate"])
@pytest.mark.parametrize("module", EXPRESSIONS)
def test_expressions_and_their_steps(module: str, split: Split) -> None:
    for problem in some(module, split):
        text = written(problem)
        assert exact(text) == Fraction(problem.answer)
        assert str(Fraction(problem.answer)) == problem.answer
        signs = set(re.findall(r"(?<=[\d)]) ?([-+*/])", text))
        assert signs <= set({"add_sub_multiple": "+-", "mul_div_multiple": "*/", "mixed": "+-*/"}[module])
        operands = re.findall(r"\d+", text)
        assert len(operands) == problem.labels["terms"] == int(problem.labels["k"]) + 1
        for equation in f"{problem.steps} {problem.answer}".split("; "):
            asked, result = equation.split(" = ")
            assert exact(asked) == Fraction(result)


def test_sums_in_another_base() -> None:
    for problem in some("add_or_sub_in_base"):
        found = re.fullmatch(r"In base (\d+), what is (\S+) ([-+]) (\S+)\?", words_of(problem))
        assert found is not None
        base = int(found[1])
        p, q, answer = (int(number, base) for number in (found[2], found[4], problem.answer))
        assert answer == (p + q if found[3] == "+" else p - q)


def test_nearest_roots() -> None:
    ordinals = ["square", "cube", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
    for problem in some("nearest_integer_root"):
        words = words_of(problem)
        if "power" in words:
            value, degree = map(int, re.findall(r"(\d+) to the power of 1/(\d+)", words)[0])
        else:
            name, number = re.findall(r"the (\w+) root of (\d+)", words)[0]
            value, degree = int(number), ordinals.index(name) + 2
        with localcontext(prec=60):
            root = Decimal(value) ** (Decimal(1) / degree)
            assert abs(root - int(problem.answer)) <= Decimal("0.5")


@pytest.mark.parametrize(
    ("value", "degree", "root"),
    [(0, 2, 0), (1, 2, 1), (2, 2, 1), (3, 2, 2), (6, 2, 2), (7, 2, 3), (10**40 - 1, 4, 10**10)],
)
def test_nearest_root_by_hand(value: int, degree: int, root: int) -> None:
    assert nearest_root(value, degree) == root


def test_surds_are_equal_and_simplified() -> None:
    with localcontext(prec=60):

        def number(text: str) -> Decimal:
            rooted = re.sub(r"sqrt\((\d+)\)", r"Decimal(\1).sqrt()", text)
            return Decimal(eval(rooted, {"Decimal": Decimal}))

        for problem in some("simplify_surd"):
            expression = words_of(problem).removeprefix("Simplify ").rstrip(".")
            asked, answer = number(expression), number(problem.answer)
            assert abs(asked - answer) < Decimal(10) ** -40 * max(1, abs(asked))
            assert re.fullmatch(
                r"-?\d+|(-?\d+ [-+] |-)?(\d+\*)?sqrt\((2|3|5|7|11|13|17|19)\)|-?\d+\*sqrt\(\d+\)", problem.answer
            )


def test_extrapolation_is_larger_or_longer_than_any_training_problem() -> None:
    def digits(problem: Problem) -> int:
        numbers = re.findall(NUMBER, words_of(problem))
        taken = numbers[:1] if problem.labels["module"] == "div" else numbers
        return sum(character.isdigit() for number in taken for character in number)

    for module, most in (("add_or_sub", 16), ("mul", 10), ("div", 10)):
        assert max(map(digits, some(module))) <= most < min(map(digits, some(module, "extrapolate")))
    for module in EXPRESSIONS:
        assert {problem.labels["k"] for problem in some(module)} == {3, 4, 5, 6}
        assert {problem.labels["k"] for problem in some(module, "extrapolate")} == {9, 10, 11}


def test_few_digits_bound_training_and_extrapolation_goes_two_beyond() -> None:
    made = task("arithmetic", modules=("add_or_sub", "mul", "div", "nearest_integer_root"), entropy=(2, 4))
    digits: dict[tuple[str, str], list[int]] = {}
    for split in ("train", "interpolate", "extrapolate"):
        for index in range(400):
            problem = made.problem(index, 0, split)
            module, numbers = str(problem.labels["module"]), re.findall(NUMBER, words_of(problem))
            taken = numbers if module in ("add_or_sub", "mul") else numbers[:1]
            count = sum(character.isdigit() for number in taken for character in number)
            digits.setdefault((module, split), []).append(count)
    for module in ("add_or_sub", "mul", "div"):
        own = [digits[module, split] for split in ("train", "interpolate", "extrapolate")]
        assert max(own[0] + own[1]) <= 4 < min(own[2])
        assert max(own[2]) <= 9  # six, each number rounded up, and noughts before a decimal point
    assert max(digits["nearest_integer_root", "train"]) <= 5
    with pytest.raises(OptionError, match="arithmetic: entropy reaches from 1 to 4; allowed: 2 to 16"):
        task("arithmetic", entropy=(1, 4))


def test_modules_take_turns_and_those_without_harder_problems_stay_out() -> None:
    made = task("arithmetic")
    assert [made.problem(index, 0, "train").labels["module"] for index in range(10)] == [*MODULES, "add_or_sub"]
    harder = [made.problem(index, 0, "extrapolate").labels["module"] for index in range(6)]
    assert sorted(map(str, harder)) == sorted(HARDER)


def test_held_out_problems_are_not_trained_on_in_other_words_or_order() -> None:
    made = task("arithmetic", modules=("add_or_sub", "mul", "div"), entropy=(2, 3))

    def asked(index: int, seed: int, split: Split) -> tuple[Fraction, str, Fraction]:
        p, sign, q = of_two(made.problem(index, seed, split))
        return (min(p, q), sign, max(p, q)) if sign in "+*" else (p, sign, q)

    trained = {asked(index, 0, "train") for index in range(3000)}
    held_out = [asked(index, 1, "interpolate") for index in range(600)]
    assert not trained & set(held_out)
    assert {sign for _, sign, _ in held_out} == {"+", "-", "*", "/"}
    repeated = [asked(index, 1, "train") for index in range(600)]
    assert trained & set(repeated), "small problems are drawn again, so that the sets could overlap"


def test_the_paper_s_probes_have_right_answers() -> None:
    questions = [problem.question for problem in probes()]
    assert questions[3] == "Q: (10/3)/((-8)/16)*(-90)/(-75) A:"
    assert [exact(written(problem)) for problem in probes()] == [-10, 15, -12, -8]
    assert [problem.answer for problem in probes()] == ["-10", "15", "-12", "-8"]
    assert [problem.example().text for problem in islice(probes(), 1, 3)] == [
        "Q: What is the value of -24 + -10 + 22 + 1 + 1 + 25? A: 15",  # the paper says -15
        "Q: What is 1 - 3 - (63 + 7 - 60)? A: -12",
    ]
    assert [len(re.findall(r"\d+", problem.question)) for problem in probes()] == [
        problem.labels["terms"] for problem in probes()
    ]


def test_numbers_as_text() -> None:
    assert [decimal_text(Fraction(number)) for number in ("0", "-1/4", "12.050", "-100", "1/1000")] == [
        "0",
        "-0.25",
        "12.05",
        "-100",
        "0.001",
    ]
    with pytest.raises(Inexact):
        decimal_text(Fraction(1, 3))
    assert [based_text(number, base) for number, base in ((0, 2), (-26, 16), (5, 2))] == ["0", "-1a", "101"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"modules": ("mul", "dif")},
            r"arithmetic: modules='dif' is not allowed. Did you mean 'div'\? Allowed: add_or",
        ),
        ({"modules": ()}, "arithmetic: modules is empty; give at least one of add_or_sub"),
        ({"module": "mul"}, r"arithmetic has no option 'module'. Did you mean 'modules'\?"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task("arithmetic", **options)


def test_nothing_to_extrapolate_to() -> None:
    made = task("arithmetic", modules="simplify_surd")
    with pytest.raises(
        OptionError, match="simplify_surd have no harder problems to extrapolate to; those that have: add"
    ):
        made.problem(0, 0, "extrapolate")
