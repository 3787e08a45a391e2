"""Arithmetic expressions that have a value given beforehand, as text and as equations.

And the numbers in them: how they are drawn and how they are written, exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import NamedTuple, TypeAlias

_EXACT = Context(prec=1_000, traps=[Inexact])


def integer(rng: random.Random, entropy: float, *, signed: bool = True, least: int = 0) -> int:
    """A whole number, uniform over about 10^``entropy`` of them, of at least the absolute value ``least``."""
    number_of = round(10**entropy)
    most = max((number_of + 1) // 2 if signed else number_of, least)
    size = rng.randint(least, most)
    return -size if signed and rng.random() < 0.5 else size


def integer_or_decimal(rng: random.Random, entropy: float) -> Fraction:
    """A whole number, or one with up to as many decimal places as it has digits; each in half of all cases."""
    number = integer(rng, entropy)
    places = rng.randint(1, len(str(abs(number)))) if rng.random() < 0.5 else 0
    return Fraction(number, 10**places)


def integer_or_rational(rng: random.Random, entropy: float) -> Fraction:
    """A whole number, or a fraction of two; each in half of all cases."""
    if rng.random() < 0.5:
        return Fraction(integer(rng, entropy))
    return Fraction(integer(rng, entropy / 2), integer(rng, entropy / 2, signed=False, least=1))


def split_in_two(rng: random.Random, entropy: float) -> tuple[float, float]:
    """Two parts of an entropy, each at least 1."""
    first = max(1.0, rng.uniform(0, entropy))
    return first, max(1.0, entropy - first)


def decimal_text(number: Fraction) -> str:
    """A number that has finitely many decimal places, all of them written: ``-0.25``; decimal.Inexact for others."""
    return f"{_EXACT.divide(Decimal(number.numerator), number.denominator):f}"


def based_text(number: int, base: int) -> str:
    """A whole number in another base, digits above 9 as letters: ``-1a``."""
    import numpy as np  # which the help of commands does not wait for

    return np.base_repr(number, base).lower()


def nearest_root(value: int, degree: int) -> int:
    """The whole number nearest to a root, by whole numbers alone. There are no ties: no half has a whole power."""
    # By bisection: a root in floating point may round to the wrong side of a half.
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle)
    return low + ((2 * low + 1) ** degree < value * 2**degree)


def count_digits(text: str) -> int:
    """How many digits a written number has."""
    return sum(character.isalnum() for character in text)


LARGEST_DIVISOR = 100


class Operation(NamedTuple):
    """Two operands, one of ``+-*/`` between them, and what comes out."""

    sign: str
    left: Node
    right: Node
    value: Fraction


Node: TypeAlias = "int | Operation"


def grow(rng: random.Random, value: Fraction, operations: int, signs: str, entropy: float) -> Node:
    """An expression of this many operations whose value is ``value`` and whose operands are whole numbers.

    From the outside inwards: of every operation one operand is drawn and the other follows from the value.

    Args:
        operations: at least 1 where ``value`` is a fraction, which is possible only with ``/``.
        signs: the operations to draw from: ``+-``, ``*/`` or ``+-*/``.
        entropy: of each drawn operand, in decimal digits.
    """
    if not operations:
        return int(value)
    is_fraction_alone = operations == 1 and value.denominator > 1
    sign = "/" if is_fraction_alone else rng.choice(signs)
    left, right = _OPERANDS[sign](rng, value, operations == 1, entropy)
    # A side that is a fraction needs at least one operation, its division; the others go to either side at random.
    needs = [int(operand.denominator > 1) for operand in (left, right)]
    free = rng.randint(0, operations - 1 - sum(needs))
    return Operation(
        sign,
        grow(rng, left, needs[0] + free, signs, entropy),
        grow(rng, right, operations - 1 - needs[0] - free, signs, entropy),
        value,
    )


def text(node: Node) -> str:
    """An expression with no more brackets than its reading needs, but for a quotient divided further: ``(10/3)/5``."""
    if isinstance(node, int):
        return str(node)
    left, right = text(node.left), text(node.right)
    if node.sign in "+-":
        return f"{left} {node.sign} {f'({right})' if _sign(node.right) in ('+', '-') else right}"
    own_left = isinstance(node.left, Operation) and node.left.sign in ("*" if node.sign == "/" else "*/")
    left = left if own_left or _is_plain(node.left) else f"({left})"
    return f"{left}{node.sign}{right if _is_plain(node.right) else f'({right})'}"


def equations(node: Node) -> str:
    """One equation for each operation, innermost first; the last without its result. Fractions count as numbers."""
    written = [equation for equation, is_new in _equations(node) if is_new]
    return "; ".join(written).rpartition(" ")[0]


def leaves(node: Node) -> Iterator[int]:
    """Operands in the order in which they are written."""
    if isinstance(node, int):
        yield node
    else:
        yield from leaves(node.left)
        yield from leaves(node.right)


def _equations(node: Node, is_whole: bool = True) -> Iterator[tuple[str, bool]]:
    if isinstance(node, int):
        return
    yield from _equations(node.left, False)
    yield from _equations(node.right, False)
    left, right = (_operand(operand, node.sign) for operand in (node.left, node.right))
    expression = f"{left} {node.sign} {right}" if node.sign in "+-" else f"{left}{node.sign}{right}"
    yield f"{expression} = {node.value}", is_whole or expression != str(node.value)


def _operand(node: Node, sign: str) -> str:
    value = Fraction(node) if isinstance(node, int) else node.value
    needs_brackets = value.denominator > 1 or (value < 0 and sign in "*/")
    return f"({value})" if needs_brackets else str(value)


def _sign(node: Node) -> str:
    return "" if isinstance(node, int) else node.sign


def _is_plain(node: Node) -> bool:
    return isinstance(node, int) and node >= 0


def _add(rng: random.Random, value: Fraction, is_last: bool, entropy: float) -> tuple[Fraction, Fraction]:
    operand = Fraction(integer(rng, entropy))
    return (operand, value - operand) if rng.random() < 0.5 else (value - operand, operand)


def _subtract(rng: random.Random, value: Fraction, is_last: bool, entropy: float) -> tuple[Fraction, Fraction]:
    operand = Fraction(integer(rng, entropy))
    return (operand, operand - value) if rng.random() < 0.5 else (value + operand, operand)


def _multiply(rng: random.Random, value: Fraction, is_last: bool, entropy: float) -> tuple[Fraction, Fraction]:
    operand = Fraction(integer(rng, entropy, least=1))
    if is_last and value:  # both operands must be whole
        divisors = [d for d in range(1, LARGEST_DIVISOR + 1) if value % d == 0]
        operand = Fraction(rng.choice(divisors) * rng.choice((1, -1)))
    return (operand, value / operand) if rng.random() < 0.5 else (value / operand, operand)


def _divide(rng: random.Random, value: Fraction, is_last: bool, entropy: float) -> tuple[Fraction, Fraction]:
    operand = Fraction(integer(rng, entropy, least=1))
    if is_last:
        return value.numerator * operand, value.denominator * operand
    return (operand, operand / value) if value and rng.random() < 0.5 else (value * operand, operand)


_OPERANDS = {"+": _add, "-": _subtract, "*": _multiply, "/": _divide}
