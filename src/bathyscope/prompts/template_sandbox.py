"""The sandbox in which chat templates are written: what a template computes is bounded, operation by operation.

A deadline stops loops and not single operations in C, such as ``9 ** (9 ** 9)``; so these are refused before they
begin. Texts without end meet the limit of memory instead.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final

MARK: Final = "{# bounded #}\n"
"""What begins a template that is read here: the library keeps what it has read elsewhere. It writes nothing."""
_ENVIRONMENT: Final = "ImmutableSandboxedEnvironment"
_ONE_AT_A_TIME: Final = threading.RLock()
_MOST_BITS: Final = 1 << 15
"""Of a whole number; ten thousand digits."""
_MOST_LETTERS: Final = 10_000_000
_MOST_COMPARED: Final = 1_000_000_000
"""Letters of a text times those that are searched for in it, from its end, which Python does letter by letter."""
_FROM_THE_END: Final = frozenset({"rfind", "rindex", "rsplit", "rpartition"})
_BITS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda left, right: max(left.bit_length(), right.bit_length()) + 1,
    "-": lambda left, right: max(left.bit_length(), right.bit_length()) + 1,
    "*": lambda left, right: left.bit_length() + right.bit_length(),
    "**": lambda left, right: left.bit_length() * abs(right) if left not in (-1, 0, 1) else 1,
}
"""Bits of a result, at most; those of quotients and remainders are the operands'."""


@cache
def bounded(sandbox: type[Any]) -> type[Any]:
    """Return a sandbox whose operators, filters and calls refuse what would take minutes in one step.

    Args:
        sandbox: jinja2's, or one that is made of it.
    """

    class BoundedEnvironment(sandbox):
        intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # what it looks for may be looked for without end, and no chat has a use for it
            self.filters.pop("urlize", None)
            self.filters["round"] = partial(_rounded, self.filters["round"])

        def call_binop(self, context: Any, sign: str, left: Any, right: Any) -> Any:
            _require_bounded(sign, left, right)
            return super().call_binop(context, sign, left, right)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            _require_short_search(__obj, [*args, *kwargs.values()])
            return super().call(__context, __obj, *args, **kwargs)

    return BoundedEnvironment


@contextmanager
def bounded_templates() -> Iterator[None]:
    """Have the library read templates in a bounded sandbox inside of the block; those that begin with ``MARK``."""
    from transformers.utils import chat_template_utils

    with _ONE_AT_A_TIME:
        before = getattr(chat_template_utils, _ENVIRONMENT)
        setattr(chat_template_utils, _ENVIRONMENT, bounded(before))
        try:
            yield
        finally:
            setattr(chat_template_utils, _ENVIRONMENT, before)


def _require_bounded(sign: str, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        bits = _BITS.get(sign, lambda left, right: max(left.bit_length(), right.bit_length()))
        if bits(left, right) > _MOST_BITS:
            raise ValueError(f"it computes whole numbers of more than {_MOST_BITS:,} bits")
    elif sign == "*":
        long, times = (left, right) if isinstance(right, int) else (right, left)
        if isinstance(times, int) and hasattr(long, "__len__") and len(long) * times > _MOST_LETTERS:
            raise ValueError(f"it repeats something to more than {_MOST_LETTERS:,} letters")


def _require_short_search(function: Any, arguments: list[Any]) -> None:
    text = getattr(function, "__self__", None)
    if isinstance(text, str) and getattr(function, "__name__", "") in _FROM_THE_END:
        longest = max([0, *(len(part) for part in arguments if isinstance(part, str))])
        if len(text) * longest > _MOST_COMPARED:
            raise ValueError(f"it searches {len(text):,} letters for {longest:,}")


def _rounded(rounding: Callable[..., float], value: float, precision: int = 0, method: str = "common") -> float:
    # it raises ten to the power of the precision
    _require_bounded("**", 10, operator.index(precision))
    return rounding(value, precision, method)
