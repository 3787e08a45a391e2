"""Numbers of the arithmetic modules: how they are drawn and how they are written, exactly."""

import random
from fractions import Fraction

DIGITS = "0123456789abcdef"
"""Of numbers in a base up to 16."""


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
    """A number that has finitely many decimal places, all of them written: ``-0.25``.

    Raises:
        ValueError: it has infinitely many.
    """
    places = 0
    while number * 10**places % 1:
        places += 1
        if places > number.denominator.bit_length():
            raise ValueError(f"{number} has no end as a decimal number")
    written = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    whole, parts = written[: len(written) - places], written[len(written) - places :]
    return ("-" if number < 0 else "") + whole + (f".{parts}" if parts else "")


def based_text(number: int, base: int) -> str:
    """A whole number in another base, digits above 9 as letters: ``-1a``."""
    left, written = abs(number), ""
    while left:
        left, digit = divmod(left, base)
        written = DIGITS[digit] + written
    return ("-" if number < 0 else "") + (written or "0")


def nearest_root(value: int, degree: int) -> int:
    """The whole number nearest to a root, by whole numbers alone. There are no ties: no half has a whole power."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle)
    return low + ((2 * low + 1) ** degree < value * 2**degree)


def count_digits(text: str) -> int:
    """How many digits a written number has."""
    return sum(character.isalnum() for character in text)
