"""Expressions of square roots that reduce to a + b·√base, worked out exactly."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bathyscope.prompts.tasks.arithmetic_numbers import integer

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
        term, multiple, own = _root(rng, base)
        minus = rng.random() < 0.5
        sign = " - " if minus else " + "
        written += (sign if number else "-" * minus) + term
        b += -multiple if minus else multiple
        operations += own
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
