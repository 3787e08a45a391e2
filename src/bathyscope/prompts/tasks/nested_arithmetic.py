"""Nested arithmetic: a fully bracketed expression of digits, modulo a small number, k operations deep.

``( ( 3 + 4 ) * 2 ) :`` asks for the value, here 4 modulo 10. Expressions of all depths have the same number of
operands, from a balanced tree to a chain.

One operand as deep as any, the *pivot*, decides the answer: along its path to the outermost bracket it is only added,
subtracted, or multiplied by numbers that have an inverse, so that each value of it gives another answer.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from operator import add, mul, sub
from typing import Annotated, Literal, NamedTuple, get_args

from bathyscope.errors import OptionError
from bathyscope.options import Range
from bathyscope.prompts.tasks.drawing import DrawnProblem, Task, check_choice, level_range
from bathyscope.prompts.tasks.problem import Problem, Split

Operator = Literal["+", "-", "*"]
BY_DEPTH = "depth"
MAX_LEAVES, MAX_MODULUS = 256, 100

_LOWER_BOUND = """\
Conditional: the value of a bracketed Boolean formula is complete for NC1 (Buss 1987), and Boolean formulas are such \
expressions with * and - (x and y = x * y, not x = 1 - x), which may stand next to the pivot's path; transformers of \
fixed depth and logarithmic precision compute only what is in uniform TC0 (Merrill & Sabharwal 2023): unless \
TC0 = NC1, none evaluates all expressions. O(log n) rounds are enough for n operands, whatever the depth (Brent 1974; \
Buss 1987). Not covered: expressions without *, which are signed sums, and chains alone (k = leaves - 1), whose steps \
x -> a x + b with a invertible form a solvable group (Barrington & Thérien 1988): both are in TC0. Not proven: \
TC0 ≠ NC1, that depth k needs k layers, or anything for one number of operands."""

_CONTROLS = """\
All questions have the same length, whatever k. The answer is uniform, and independent of all operands but one that \
stands k deep, at a random place; no product with zero lets a model leave that one out. Operators are drawn alike at \
every depth; extrapolation holds out greater depths, or a pair of operators one directly in the other."""


@dataclass(frozen=True)
class NestedArithmeticOptions:
    """Options of nested arithmetic.

    Args:
        depth: lowest and highest k of training and interpolation: brackets around the deepest operand.
        beyond: lowest and highest k of extrapolation; None = from one more than in training to a chain. Not with a
            held-out pair.
        leaves: operands of every expression; k reaches from log₂ of it to one less.
        modulus: answers are 0 to one less.
        operators: of ``+``, ``-`` and ``*``; not ``*`` alone.
        held_out: "depth" = extrapolation is deeper; or a pair such as ``*-``: no training expression has ``-``
            directly in ``*``, all of extrapolation have, at the depths of training.
    """

    depth: tuple[int, ...] = (4, 8)
    beyond: tuple[int, ...] | None = None
    leaves: Annotated[int, Range(3, MAX_LEAVES)] = 12
    modulus: Annotated[int, Range(2, MAX_MODULUS)] = 10
    operators: tuple[Operator, ...] = get_args(Operator)
    held_out: str = BY_DEPTH


class _Tree(NamedTuple):
    """A bracketed expression with its value and its equations, the innermost first."""

    text: str
    value: int
    operator: str = ""
    equations: tuple[str, ...] = ()
    has_pair: bool = False


class NestedArithmetic(Task[int]):
    """Expressions of depth k over the integers modulo a small number."""

    name = "nested_arithmetic"
    options_type = NestedArithmeticOptions
    lower_bound = _LOWER_BOUND
    controls = _CONTROLS

    def __init__(self, options: NestedArithmeticOptions) -> None:
        if not set(options.operators) - {"*"}:
            raise OptionError(
                f"{self.name}: operators={options.operators!r} has neither + nor -, and products alone are rarely "
                "invertible; add one of them."
            )
        least, chain = shallowest(options.leaves), options.leaves - 1
        reason = f"what {options.leaves} operands allow"
        self._usual = level_range(f"{self.name}: depth", options.depth, least, chain, reason)
        self._leaves = options.leaves
        self._modulus = options.modulus
        self._operators = tuple(dict.fromkeys(options.operators))
        self._pair = _checked_pair(options.held_out, self._operators)
        self._beyond = self._usual if self._pair else self._deeper(options.beyond)
        if self._pair and options.beyond is not None:
            raise OptionError(
                f"{self.name}: beyond={options.beyond!r} and held_out={self._pair!r} both say what extrapolation is; "
                "give one of them."
            )
        self._units = tuple(unit for unit in range(options.modulus) if gcd(unit, options.modulus) == 1)
        self.words = (*map(str, range(options.modulus)), *self._operators, "(", ")", "=", ";", ":")

    def _deeper(self, beyond: tuple[int, ...] | None) -> range:
        least, chain = self._usual[-1] + 1, self._leaves - 1
        if least > chain:
            raise OptionError(
                f"{self.name}: depth reaches {chain}, the most that {self._leaves} operands allow, and leaves none to "
                f"extrapolate to; give more leaves, less depth, or held_out='*-' (a pair of operators)."
            )
        reason = f"more than in training, at most what {self._leaves} operands allow"
        return level_range(f"{self.name}: beyond", beyond or (least, chain), least, chain, reason)

    def draw(self, rng: random.Random, level: int, split: Split) -> DrawnProblem | None:
        held_out = self._pair if split != "extrapolate" else ""
        tree = self._expression(rng, self._leaves, level, "", held_out, pivotal=True)
        if self._pair and tree.has_pair != (split == "extrapolate"):
            return None
        steps = " ; ".join(tree.equations).rpartition(" ")[0]
        question = f"{tree.text} :"
        return DrawnProblem(Problem(question, str(tree.value), steps, {"k": level}), question)

    def _expression(
        self, rng: random.Random, leaves: int, depth: int, outer: str, held_out: str, *, pivotal: bool
    ) -> _Tree:
        """An expression of exactly this depth, directly in the operator ``outer``.

        Args:
            held_out: the pair of operators that must not occur; empty = any may.
            pivotal: one operand, ``depth`` deep, decides the value.
        """
        if leaves == 1:
            value = rng.randrange(self._modulus)
            return _Tree(str(value), value)
        operator = rng.choice([inner for inner in self._operators if not held_out or outer + inner != held_out])
        # leaves on the side that is ``depth`` − 1 deep, and on the other, which is at most so deep
        widest = 2 ** (depth - 1)
        inside = rng.randint(max(depth, leaves - widest), min(widest, leaves - 1))
        other_leaves = leaves - inside
        deep = self._expression(rng, inside, depth - 1, operator, held_out, pivotal=pivotal)
        # Along the pivot's path a factor must have an inverse, or two values of the pivot would give one answer.
        while True:
            its_depth = rng.randint(shallowest(other_leaves), min(other_leaves, depth) - 1)
            other = self._expression(rng, other_leaves, its_depth, operator, held_out, pivotal=False)
            if not pivotal or operator != "*" or other.value in self._units:
                break
        left, right = (deep, other) if rng.random() < 0.5 else (other, deep)
        return self._joined(left, operator, right)

    def _joined(self, left: _Tree, operator: str, right: _Tree) -> _Tree:
        value = _OPERATIONS[operator](left.value, right.value) % self._modulus
        equation = f"{left.value} {operator} {right.value} = {value}"
        inner_pairs = (operator + left.operator, operator + right.operator)
        return _Tree(
            f"( {left.text} {operator} {right.text} )",
            value,
            operator,
            (*left.equations, *right.equations, equation),
            left.has_pair or right.has_pair or self._pair in inner_pairs,
        )


def shallowest(leaves: int) -> int:
    """The depth of a balanced tree of this many leaves: log₂, rounded up."""
    return (leaves - 1).bit_length()


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}


def _checked_pair(held_out: str, operators: Sequence[str]) -> str:
    """The pair of operators that is held out, outer and inner; empty where depth is."""
    if held_out == BY_DEPTH:
        return ""
    pairs = [outer + inner for outer in operators for inner in operators]
    check_choice("nested_arithmetic: held_out", held_out, (BY_DEPTH, *pairs))
    left = [inner for inner in operators if inner != held_out[1]]
    if not left or (held_out[0] == "*" and left == ["*"]):
        raise OptionError(
            f"nested_arithmetic: held_out={held_out!r} leaves {', '.join(left) or 'nothing'} to stand in "
            f"{held_out[0]!r}; give more operators, or hold out another pair."
        )
    return held_out
