"""Options: dataclasses whose annotations say what is allowed, and the one check of everything that is given.

A choice is a ``Literal``, a range is ``Annotated[int, Range(1, 64)]``, and a list whose items may be given once is
``Annotated[tuple[...], Distinct()]``. A call's keywords, a recipe's values and a shell's flags are all read here,
so that each mistake is refused in the same words, before any model is loaded.
"""

import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from bathyscope.errors import OptionError, did_you_mean

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_CHECKED = "_is_checked"
"""The mark of options whose values have been looked at; a copy with other values does not have it."""


@dataclass(frozen=True)
class Range:
    """Annotates a number: from ``low`` to ``high``, both allowed.

    Args:
        high: None = as large as one likes.
        none: what None means where it is allowed, for messages.

    Example:
        >>> bathyscope.Range(1, 10).check(11, "k")
        Traceback (most recent call last):
        bathyscope.errors.OptionError: k=11 is out of range; allowed: 1 to 10.
    """

    low: float
    high: float | None = None
    none: str = ""

    def __str__(self) -> str:
        text = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
        return f"{text}, or None ({self.none})" if self.none else text

    def check(self, value: float, where: str) -> None:
        """Raises OptionError for a number outside."""
        if not (self.low <= value and (self.high is None or value <= self.high)):
            raise OptionError(f"{where}={value} is out of range; allowed: {self}.")


@dataclass(frozen=True)
class Distinct:
    """Annotates a list: at least one item, none twice."""

    def check(self, value: Sequence[Any], where: str, choices: str) -> None:
        """Raises OptionError for an empty list, or one that repeats an item."""
        if not value or len(set(value)) < len(value):
            allowed = f"; allowed: {choices}" if choices else ""
            raise OptionError(f"{where}={list(value)} is not allowed; give at least one, each once{allowed}.")


Coverage = Annotated[float, Range(0.01, 0.9999)]
"""Of an interval."""
Resamples = Annotated[int, Range(1, 10_000_000)]
"""Of a bootstrap, or orders of a permutation test."""


@dataclass(frozen=True)
class NoOptions:
    """What has no options."""


def coerce(options_type: type[T], given: object, where: str) -> T:
    """An instance of ``options_type`` from itself, a mapping of its fields, or None (the defaults).

    Lists become tuples, and a single text stands for a tuple of one. What has been checked is not checked again: an
    instance that was made here is given back.

    Raises:
        OptionError: unknown option (with a near miss), a value of another type, or one that is not allowed.
    """
    if isinstance(given, options_type) and getattr(given, _CHECKED, False):
        return given
    if isinstance(given, options_type) and is_dataclass(given):
        given = {field.name: getattr(given, field.name) for field in fields(given)}
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not is_dataclass(options_type):
        raise OptionError(f"{where}: options are a dict or {options_type.__name__}; {type(given).__name__} given.")
    hints = typing.get_type_hints(options_type, include_extras=True)
    allowed = [f.name for f in fields(options_type)]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in allowed:
            listed = ", ".join(allowed) or "none"
            raise OptionError(f"{where} has no option {name!r}.{did_you_mean(str(name), allowed)} Allowed: {listed}.")
        values[str(name)] = _as(hints[name], value, f"{where}: {name}")
    made = options_type(**values)
    if hasattr(made, "__dict__"):
        object.__setattr__(made, _CHECKED, True)
    return made


def require_allowed(made: Any, where: str) -> None:
    """Raises OptionError where a field of a dataclass's instance is not what its annotation allows."""
    hints = typing.get_type_hints(type(made), include_extras=True)
    for field in fields(made):
        _as(hints[field.name], getattr(made, field.name), f"{where}: {field.name}")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses a plain argument of another type than it is annotated with before it does anything.

    Numbers, texts, truth values, lists of them, and choices are looked at; models, prompts, tables and paths are not.
    A ``seed`` is one that numpy takes.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            unknown = [name for name in options if name not in signature.parameters]
            near = "".join(did_you_mean(name, signature.parameters) for name in unknown)
            told = f"{function.__name__}(): {error}.{near} See help(bathyscope.{function.__name__})."
            raise TypeError(told) from None
        bound.arguments.update(checked_arguments(function, bound.arguments))
        return function(*bound.args, **bound.kwargs)

    return call


def checked_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names as a ``checked`` function takes them; those that it does not have stay as they are."""
    hints, found = typing.get_type_hints(function, include_extras=True), dict(given)
    for name, value in given.items():
        if name in hints and _is_plain(hints[name]):
            found[name] = _as(hints[name], value, name)
        if name == "seed" and found[name] is not None:
            Range(0, (1 << 32) - 1).check(found[name], name)
    return found


def _is_plain(hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return True
    if origin is Sequence and typing.get_origin(arguments[0]) is Literal:
        return False  # lists of choices may come as one text with commas, which their call takes apart
    if origin is Annotated or origin is Sequence:
        return _is_plain(arguments[0]) or any(isinstance(mark, Distinct) for mark in arguments[1:])
    if origin in (typing.Union, types.UnionType):
        others = [inner for inner in arguments if inner is not type(None)]
        return len(others) == 1 and _is_plain(others[0])
    return hint in (int, float, bool, str)


def choices(hint: Any) -> str:
    """What an annotated option may be, in words: ``block, attention, mlp`` or ``1 to 64``; empty = not said."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is Annotated:
        return ", ".join(str(mark) for mark in arguments[1:] if isinstance(mark, Range)) or choices(arguments[0])
    if origin in (typing.Union, types.UnionType, tuple):
        return next((found for inner in arguments if (found := choices(inner))), "")
    return ""


def _as(wanted: Any, value: Any, where: str) -> Any:
    """``value`` as the annotated type."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Annotated:
        value = _as(arguments[0], value, where)
        for mark in arguments[1:] if value is not None else ():
            if isinstance(mark, Distinct):
                mark.check(value, where, choices(arguments[0]))
            elif isinstance(mark, Range):
                mark.check(value, where)
        return value
    if origin is Literal:
        if value not in arguments:
            raise OptionError(
                f"{where}={value!r} is unknown.{did_you_mean(str(value), arguments)} Allowed: {choices(wanted)}."
            )
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        others = [a for a in arguments if a is not type(None)]
        # which of several kinds was given is the measure's to tell, unless it is plainly none of them
        kinds = tuple(a for a in others if isinstance(a, type))
        unchecked = len(others) > 1 and (len(kinds) < len(others) or isinstance(value, kinds))
        return value if unchecked else _as(others[0], value, where)
    if origin is Sequence:
        if isinstance(value, str):
            raise OptionError(f"{where}={value!r} is one text; give a list: [{value!r}].")
        if not isinstance(value, Sequence | Set | int | float):
            raise OptionError(f"{where} takes a list; {value!r} given.")
        return [_as(arguments[0], item, where) for item in ((value,) if isinstance(value, int | float) else value)]
    if origin is tuple:
        if isinstance(value, str | int | float):
            value = (value,)
        if not isinstance(value, Sequence) and not hasattr(value, "__iter__"):
            raise OptionError(f"{where} takes a list; {value!r} given.")
        return tuple(_as(arguments[0], item, where) for item in value)
    if wanted is bool and not isinstance(value, bool):
        raise OptionError(f"{where} takes true or false; {value!r} given.")
    if wanted is str and not isinstance(value, str):
        raise OptionError(f"{where} takes a text; {value!r} given.")
    if wanted is int:
        return _converted(operator.index, value, where, "a whole number")
    if wanted is float:
        return _converted(float, value, where, "a number")
    return value


def _converted(convert: Callable[[Any], float], value: Any, where: str, what: str) -> Any:
    try:
        if isinstance(value, bool | str):
            raise TypeError("neither a truth value nor a text is a number")
        return convert(value)
    except TypeError as error:
        raise OptionError(f"{where} takes {what}; {value!r} given.") from error
