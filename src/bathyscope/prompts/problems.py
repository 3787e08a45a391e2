"""Seeded arithmetic problems.

Word problems of 1 to 6 steps and plain sums come with written solutions; single additions and multiplications do not.

The solution of a problem of k steps writes k equations, each with the numbers stated or worked out before; the
number of steps is therefore a ground-truth difficulty, to be used as a grouping label.
Only `random.Random` is drawn from, so a seed gives the same problems on every platform.
"""

import itertools
import operator
import random
from collections.abc import Callable, Sequence
from typing import Literal

from bathyscope.core.text import written_out
from bathyscope.prompts.problem_words import COMPARISONS, GOODS, NAMES, SCENES, Event, Scene
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.tasks.problem import Problem

Kind = Literal["word", "sum", "addition", "multiplication"]

MAX_STEPS = 6
MAX_DIGITS = 9
LARGEST_TOTAL = 2000
"""Word problems stay below this, so that their arithmetic is of the school kind."""

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}

_SINGLE: dict[Kind, str] = {"addition": "+", "multiplication": "*"}

ANSWER_PHRASE = "The final answer is "


def generate(kind: Kind, count: int, seed: int, steps: int | None = None, digits: int = 2) -> list[Problem]:
    """``count`` problems with their written solutions, the same for the same arguments on every platform.

    Args:
        kind: ``word`` for word problems, ``sum`` for plain sums of any operations, ``addition`` and
            ``multiplication`` for one operation of two numbers.
        seed: of the generator; problem i does not depend on ``count``.
        steps: equations per problem, 1 to 6; None draws the number for each problem. Single operations have 1.
        digits: digits of every operand, 1 to 9; word problems do not use it.
    """
    # Seeded by text: Python hashes it with SHA-512, the same on every platform and version.
    rng = random.Random(f"{kind}/{seed}/{steps}/{digits}")
    problems = []
    for _ in range(count):
        if kind in _SINGLE:
            problems.append(_single(rng, kind, digits))
            continue
        n_steps = steps if steps is not None else rng.randint(1, MAX_STEPS)
        problems.append(_word_problem(rng, n_steps) if kind == "word" else _sum(rng, n_steps, digits))
    return problems


def to_prompt(problem: Problem, id: str | None = None) -> Prompt:
    """Question, solution and final answer as one text; the final answer is the part that is measured.

    Labels: ``steps``, ``kind`` and, but for word problems, ``digits``, so that results can be grouped by difficulty.
    """
    if problem.steps:
        text = f"Problem: {problem.question}\nAnswer: {problem.steps}\n{ANSWER_PHRASE}{problem.answer}"
    else:
        text = f"{problem.question} {problem.answer}"
    return Prompt(text=text, answer=problem.answer, id=id, labels=problem.labels)


def _problem(
    question: str, equations: Sequence[str], answer: int, steps: int, kind: Kind, digits: int | None = None
) -> Problem:
    """A problem with a sentence for each equation of its solution."""
    labels: dict[str, str | int] = {"steps": steps, "kind": kind}
    if digits is not None:
        labels["digits"] = digits
    return Problem(question, str(answer), "\n".join(equations) or None, labels)


# -- word problems ---------------------------------------------------------------------------------------


def _word_problem(rng: random.Random, steps: int) -> Problem:
    story: Callable[[random.Random, int], Problem] = rng.choices([_chain, _comparison, _shopping], weights=[3, 1, 1])[0]
    return story(rng, steps)


def _chain(rng: random.Random, steps: int) -> Problem:
    """One quantity that every event changes."""
    scene = rng.choice(SCENES)
    words = {"name": rng.choice(NAMES), "thing": rng.choice(scene.things)}
    total = rng.randint(3, 60)
    sentences = [rng.choice(scene.openings).format(n=total, **words)]
    worked = []
    for _ in range(steps):
        event, operand = _fitting_event(rng, scene, total)
        other = rng.choice([name for name in NAMES if name != words["name"]])
        result = _OPERATIONS[event.operator](total, operand)
        sentences.append(rng.choice(event.tellings).format(n=operand, other=other, **words))
        equation = f"{total} {event.operator} {operand} = {result}"
        worked.append(rng.choice(event.workings).format(eq=equation, other=other, **words))
        total = result
    question = " ".join([*sentences, rng.choice(scene.questions).format(**words)])
    return _problem(question, worked, total, steps, "word")


def _fitting_event(rng: random.Random, scene: Scene, total: int) -> tuple[Event, int]:
    """An event and its operand such that the total stays a whole number between 1 and the largest."""
    # Divisions must come out even and leave more than nothing, so that every amount of the story is a whole number.
    operands = {
        "+": range(2, 91),
        "-": range(1, total * 3 // 4 + 1) if total >= 3 else range(0),
        "*": range(2, min(9, LARGEST_TOTAL // total) + 1),
        "/": [n for n in range(2, 11) if total % n == 0 and total > n],
    }
    event = rng.choice([event for event in scene.events if operands[event.operator]])
    return event, rng.choice(operands[event.operator])


def _comparison(rng: random.Random, steps: int) -> Problem:
    """Persons whose amounts are stated relative to each other; from two steps on, the sum is asked for."""
    persons = rng.sample(NAMES, steps + 1 if steps == 1 else steps)
    thing = rng.choice(GOODS)
    amounts = [rng.randint(3, 40)]
    sentences = [f"{persons[0]} has {amounts[0]} {thing}."]
    worked = []
    for before, person in itertools.pairwise(persons):
        relation, operand = _fitting_comparison(rng, amounts[-1])
        amount = _OPERATIONS[relation](amounts[-1], operand)
        sentences.append(COMPARISONS[relation].format(name=person, other=before, n=operand, thing=thing))
        worked.append(f"{person} has {amounts[-1]} {relation} {operand} = {amount} {thing}.")
        amounts.append(amount)
    if steps == 1:
        question = f"How many {thing} does {persons[-1]} have?"
        return _problem(" ".join([*sentences, question]), worked, amounts[-1], 1, "word")
    template = rng.choice(["How many {t} do they have in all?", "How many {t} do they have together?"])
    worked.append(f"Together they have {' + '.join(map(str, amounts))} = {sum(amounts)} {thing}.")
    question = " ".join([*sentences, template.format(t=thing)])
    return _problem(question, worked, sum(amounts), steps, "word")


def _fitting_comparison(rng: random.Random, amount: int) -> tuple[str, int]:
    """The operator of a relation and its operand such that the other amount is at least 1 and the sum stays small."""
    operands = {
        "+": range(1, 21),
        "-": range(1, amount),
        "*": range(2, 5) if amount * 8 <= LARGEST_TOTAL else range(0),
    }
    relation = rng.choice([relation for relation in COMPARISONS if operands[relation]])
    return relation, rng.choice(operands[relation])


_BASKETS = {1: (1, False), 2: (1, True), 3: (2, False), 4: (2, True), 5: (3, True), 6: (4, True)}
"""Steps → how many kinds of goods are bought, and whether the change is asked for."""


def _shopping(rng: random.Random, steps: int) -> Problem:
    """Goods at a price each; their cost, or the change that is given back."""
    n_goods, wants_change = _BASKETS[steps]
    name = rng.choice(NAMES)
    goods = rng.sample(GOODS, n_goods)
    bought, worked, costs = [], [], []
    for good in goods:
        n, price = rng.randint(2, 12), rng.randint(1, 15)
        bought.append(f"{n} {good} at ${price} each")
        costs.append(n * price)
        worked.append(f"The {good} cost {n} * {price} = {n * price} dollars.")
    story = f"{name} buys {written_out(bought)}."
    total = sum(costs)
    if n_goods > 1:
        worked.append(f"The total cost is {' + '.join(map(str, costs))} = {total} dollars.")
    if not wants_change:
        query = rng.choice([f"How much does {name} spend?", f"How many dollars does {name} pay?"])
        return _problem(f"{story} {query}", worked, total, steps, "word")
    paid = total + rng.randint(1, 50)
    query = rng.choice(["How much change does {n} get?", "How many dollars does {n} have left?"])
    question = f"{name} has ${paid}. {story} {query.format(n=name)}"
    worked.append(f"{name} has {paid} - {total} = {paid - total} dollars left.")
    return _problem(question, worked, paid - total, steps, "word")


def _sum(rng: random.Random, steps: int, digits: int) -> Problem:
    """One operation is answered directly; a chain is reduced one operation at a time."""
    # No leading zeros: every operand has exactly as many digits as the label says.
    low = 0 if digits == 1 else 10 ** (digits - 1)
    operands = [rng.randint(low, 10**digits - 1) for _ in range(steps + 1)]
    operators = [rng.choice("+-*") if digits <= 2 else rng.choice("++-*") for _ in range(steps)]
    written = _written(operands, operators)
    if steps == 1:
        return _direct(operands, operators[0], "sum", digits)
    lines = []
    while operators:
        # As it is taught: products first, then from left to right.
        i = operators.index("*") if "*" in operators else 0
        result = _OPERATIONS[operators[i]](operands[i], operands[i + 1])
        step = f"{operands[i]} {operators[i]} {operands[i + 1]} = {result}"
        operands[i : i + 2] = [result]
        del operators[i]
        lines.append(f"{step}, so it is {_written(operands, operators)}." if operators else f"{step}.")
    template = rng.choice(["What is {}?", "Work out {}.", "Calculate {}.", "Find the value of {}."])
    return _problem(template.format(written), lines, operands[0], steps, "sum", digits)


def _single(rng: random.Random, kind: Kind, digits: int) -> Problem:
    """Two numbers without leading zeros, added or multiplied. Source: hu2025, erasure and integrated gradients."""
    operands = [rng.randint(10 ** (digits - 1), 10**digits - 1) for _ in range(2)]
    return _direct(operands, _SINGLE[kind], kind, digits)


def _direct(operands: list[int], operator: str, kind: Kind, digits: int) -> Problem:
    answer = _OPERATIONS[operator](operands[0], operands[1])
    return _problem(f"Give the answer directly: {_written(operands, [operator])} =", [], answer, 1, kind, digits)


def _written(operands: list[int], operators: list[str]) -> str:
    parts = [str(operands[0])]
    for sign, operand in zip(operators, operands[1:], strict=True):
        parts += [sign, str(operand)]
    return " ".join(parts)
