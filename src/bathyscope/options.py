"""Options given as plain values (a call's keywords, a YAML recipe) made into a measure's typed options."""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from bathyscope.errors import OptionError, did_you_mean

T = TypeVar("T")
N = TypeVar("N", int, float)


def coerce(options_type: type[T], given: object, where: str) -> T:
    """An instance of ``options_type`` from itself, a mapping of its fields, or None (the defaults).

    Lists become tuples, and a single text stands for a tuple of one.

    Raises:
        OptionError: unknown option (with a near miss), or a value of another type.
    """
    if given is None:
        return options_type()
    if isinstance(given, options_type) and is_dataclass(given):
        given = {field.name: getattr(given, field.name) for field in fields(given)}
    if not isinstance(given, Mapping) or not is_dataclass(options_type):
        raise OptionError(f"{where}: options are a dict or {options_type.__name__}; {type(given).__name__} given.")
    hints = typing.get_type_hints(options_type)
    allowed = [f.name for f in fields(options_type)]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in allowed:
            listed = ", ".join(allowed) or "none"
            raise OptionError(f"{where} has no option {name!r}.{did_you_mean(str(name), allowed)} Allowed: {listed}.")
        values[str(name)] = _as(hints[name], value, f"{where}: {name}")
    return options_type(**values)


def _as(wanted: Any, value: Any, where: str) -> Any:
    """``value`` as the annotated type."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        others = [a for a in arguments if a is not type(None)]
        # which of several kinds was given is the measure's to tell, unless it is plainly none of them
        kinds = tuple(a for a in others if isinstance(a, type))
        unchecked = len(others) > 1 and (len(kinds) < len(others) or isinstance(value, kinds))
        return value if unchecked else _as(others[0], value, where)
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
        return _integer(value, where)
    if wanted is float:
        return _number(value, where)
    return value


def _integer(value: Any, where: str) -> int:
    try:
        return _refuse_bool(operator.index, value)
    except TypeError as error:
        raise OptionError(f"{where} takes a whole number; {value!r} given.") from error


def _number(value: Any, where: str) -> float:
    try:
        return _refuse_bool(float, None if isinstance(value, str) else value)
    except TypeError as error:
        raise OptionError(f"{where} takes a number; {value!r} given.") from error


def _refuse_bool(convert: Callable[[Any], N], value: Any) -> N:
    if isinstance(value, bool):
        raise TypeError("a truth value is no number")
    return convert(value)
