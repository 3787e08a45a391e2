"""The arithmetic modules of DeepMind's mathematics data set (Saxton et al. 2019), with a generator of our own.

Ranges follow the original: first an *entropy* is drawn, the decimal digits that the numbers of a problem have together,
and for expressions a number of operations. Everything else is our own: how an entropy is spent on numbers, fewer
wordings, shallower surds, roots rounded by whole numbers, held-out problems by a hash. Every expression has a value
that is drawn first, as in the original.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from bathyscope.prompts.tasks.arithmetic_expressions import (
    based_text,
    count_digits,
    decimal_text,
    equations,
    grow,
    integer,
    integer_or_decimal,
    integer_or_rational,
    leaves,
    nearest_root,
    split_in_two,
    text,
)

BASES = (2, 3, 5, 7, 11, 13, 17, 19)
MOST_TERMS = 4


@dataclass(frozen=True)
class Surd:
    """The number a + b·√base, with how it was written."""

    text: str
    a: int
    b: int
    base: int

    @property
    def simplified(self) -> str:
        """``a + b*sqrt(base)`` without what is nought or one."""
        root = f"sqrt({self.base})" if abs(self.b) == 1 else f"{abs(self.b)}*sqrt({self.base})"
        if not self.b:
            return str(self.a)
        if not self.a:
            return f"-{root}" if self.b < 0 else root
        return f"{self.a} {'-' if self.b < 0 else '+'} {root}"


def draw_surd(rng: random.Random, entropy: float) -> tuple[Surd, int]:
    """A sum of roots of one base, perhaps times a number and squared; and its number of operations.

    Args:
        entropy: in decimal digits: how many roots are added, up to ``MOST_TERMS``.
    """
    base = rng.choice(BASES)
    count = rng.randint(1, min(MOST_TERMS, 1 + int(entropy / 3)))
    written, b, operations = "", 0, count - 1
    for number in range(count):
        term, multiple, term_operations = _root(rng, base)
        minus = rng.random() < 0.5
        sign = " - " if minus else " + "
        written += (sign if number else "-" * minus) + term
        b += -multiple if minus else multiple
        operations += term_operations
    a = integer(rng, 1) if rng.random() < 0.5 else 0
    if a:
        written += f" {'-' if a < 0 else '+'} {abs(a)}"
        operations += 1
    if rng.random() < 0.4:
        factor = integer(rng, 1, least=2)
        written, a, b, operations = f"{factor}*({written})", factor * a, factor * b, operations + 1
    if rng.random() < 0.3:
        written, a, b, operations = f"({written})**2", a * a + b * b * base, 2 * a * b, operations + 1
    return Surd(written, a, b, base), operations


def _root(rng: random.Random, base: int) -> tuple[str, int, int]:
    """A positive multiple of √base as text, the multiple, and the operations, roots included."""
    factor = rng.randint(1, 9)
    if rng.random() < 0.25:
        cancelled = rng.randint(2, 9)
        return f"sqrt({base * cancelled * factor * factor})/sqrt({cancelled})", factor, 3
    before = rng.randint(1, 5)
    root = f"sqrt({base * factor * factor})"
    return (root, factor, 1) if before == 1 else (f"{before}*{root}", before * factor, 2)


Range = tuple[float, float]
FEWEST_OPERATIONS, MOST_OPERATIONS, HARD_OPERATIONS = 3, 8, (9, 11)
MAX_BASE, MAX_DEGREE = 16, 10


class Entropies(NamedTuple):
    """Ranges that entropies are drawn from, of training problems and of larger ones; sums of two have their own."""

    numbers: tuple[Range, Range] = ((3.0, 10.0), (10.0, 12.0))
    sums: tuple[Range, Range] = ((4.0, 16.0), (16.0, 20.0))

    @classmethod
    def within(cls, least: int, most: int) -> Entropies:
        """The same range for all training problems, and up to two digits more beyond."""
        both = (float(least), float(most)), (float(most), most + 2.0)
        return cls(both, both)


ORIGINAL = Entropies()


class Asked(NamedTuple):
    """A question of a module.

    Args:
        question: in words.
        answer: exact.
        key: what is asked, whatever the wording.
        operations: one after another.
        terms: numbers in the question.
        digits: of the longest of them.
        is_hard: larger or longer than any problem of training.
        steps: one equation for each operation; None where there is only one.
    """

    question: str
    answer: str
    key: str
    operations: int
    terms: int
    digits: int
    is_hard: bool = False
    steps: str | None = None


class Module(NamedTuple):
    """A kind of question: drawn at training size, or at a larger one where it has one."""

    draw: Callable[[random.Random, bool, Entropies], Asked]
    extrapolates: bool


_COMMUTING = ("+", "*")


def _of_two(rng: random.Random, wordings: tuple[str, ...], p: str, q: str, sign: str, answer: str, most: int) -> Asked:
    """A question about two written numbers, which have at most ``most`` digits together in training."""
    digits = count_digits(p), count_digits(q)
    question = rng.choice(wordings).format(p=p, q=q)
    # a + b and b + a are one problem, which is on one side of the split.
    first, second = sorted((p, q)) if sign in _COMMUTING else (p, q)
    return Asked(question, answer, f"{first} {sign} {second}", 1, 2, max(digits), sum(digits) > most)


_SUMS = ("{p} + {q}", "What is {p} + {q}?", "Calculate {p} + {q}.", "What is {p} plus {q}?", "Add {p} and {q}.")
_DIFFERENCES = ("{p} - {q}", "What is {p} - {q}?", "Calculate {p} - {q}.", "What is {p} minus {q}?")
_PRODUCTS = ("{p} * {q}", "What is {p} * {q}?", "Calculate {p}*{q}.", "What is {p} times {q}?", "Multiply {p} and {q}.")
_QUOTIENTS = ("What is {p} divided by {q}?", "Divide {p} by {q}.", "Calculate {p} divided by {q}.")
_VALUES = ("{e}", "What is {e}?", "Calculate {e}.", "Evaluate {e}.", "What is the value of {e}?")


def _add_or_sub(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    p, q = (integer_or_decimal(rng, entropy) for entropy in split_in_two(rng, rng.uniform(*sizes.sums[hard])))
    most = int(sizes.sums[0][1])
    if rng.random() < 0.5:
        return _of_two(rng, _SUMS, decimal_text(p), decimal_text(q), "+", decimal_text(p + q), most)
    return _of_two(rng, _DIFFERENCES, decimal_text(p), decimal_text(q), "-", decimal_text(p - q), most)


def _mul(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    p, q = (integer_or_decimal(rng, entropy) for entropy in split_in_two(rng, rng.uniform(*sizes.numbers[hard])))
    return _of_two(rng, _PRODUCTS, decimal_text(p), decimal_text(q), "*", decimal_text(p * q), int(sizes.numbers[0][1]))


def _div(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    first, second = split_in_two(rng, rng.uniform(*sizes.numbers[hard]))
    q = integer(rng, second, least=1)
    p = integer(rng, first) * (q if rng.random() < 0.5 else 1)
    problem = _of_two(rng, _QUOTIENTS, str(p), str(q), "/", str(Fraction(p, q)), 0)
    return problem._replace(is_hard=count_digits(str(p)) > sizes.numbers[0][1])


def _expression(signs: str, rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    entropy = rng.uniform(*sizes.numbers[hard])
    for_value, for_operands = max(1.0, entropy / 4), max(1.0, entropy * 3 / 4)
    is_whole = hard or "/" not in signs
    value = Fraction(integer(rng, for_value)) if is_whole else integer_or_rational(rng, for_value)
    longest = FEWEST_OPERATIONS + int(for_operands / 2)
    operations = rng.randint(*HARD_OPERATIONS) if hard else rng.randint(FEWEST_OPERATIONS, longest)
    node = grow(rng, value, operations, signs, max(0.5, for_operands / operations))
    written = text(node)
    digits = max(count_digits(str(leaf)) for leaf in leaves(node))
    question = rng.choice(_VALUES).format(e=written)
    is_hard = operations > MOST_OPERATIONS
    return Asked(question, str(value), written, operations, operations + 1, digits, is_hard, equations(node))


def _add_or_sub_in_base(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    p, q = (integer(rng, entropy) for entropy in split_in_two(rng, rng.uniform(*sizes.numbers[0])))
    base = rng.randint(2, MAX_BASE)
    sign, value = ("+", p + q) if rng.random() < 0.5 else ("-", p - q)
    wordings = (f"In base {base}, what is {{p}} {sign} {{q}}?",)
    problem = _of_two(rng, wordings, based_text(p, base), based_text(q, base), sign, based_text(value, base), 0)
    return problem._replace(key=f"{problem.key} in base {base}", is_hard=False)


_ORDINALS = ("square", "cube", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _nearest_integer_root(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    degree = rng.randint(2, 3 if rng.random() < 0.5 else MAX_DEGREE)
    value = integer(rng, rng.uniform(*sizes.numbers[0]), signed=False)
    wordings = (
        f"What is the {_ORDINALS[degree - 2]} root of {value} to the nearest integer?",
        f"What is {value} to the power of 1/{degree}, to the nearest integer?",
    )
    answer = str(nearest_root(value, degree))
    return Asked(rng.choice(wordings), answer, f"{value} root {degree}", 1, 1, len(str(value)))


def _simplify_surd(rng: random.Random, hard: bool, sizes: Entropies) -> Asked:
    surd, operations = draw_surd(rng, rng.uniform(*sizes.numbers[0]))
    numbers = "".join(character if character.isdigit() else " " for character in surd.text).split()
    digits = max(map(len, numbers))
    return Asked(f"Simplify {surd.text}.", surd.simplified, surd.text, operations, len(numbers), digits)


MODULES: Mapping[str, Module] = {
    "add_or_sub": Module(_add_or_sub, True),
    "add_sub_multiple": Module(partial(_expression, "+-"), True),
    "add_or_sub_in_base": Module(_add_or_sub_in_base, False),
    "mul": Module(_mul, True),
    "div": Module(_div, True),
    "mul_div_multiple": Module(partial(_expression, "*/"), True),
    "mixed": Module(partial(_expression, "+-*/"), True),
    "nearest_integer_root": Module(_nearest_integer_root, False),
    "simplify_surd": Module(_simplify_surd, False),
}
