"""Conditions between options: annotations of a dataclass, and the one check that calls and the command line share."""

import typing
from collections.abc import Mapping, Sized
from dataclasses import dataclass, fields
from typing import Any

from bathyscope.errors import OptionError, describe_value
from bathyscope.options import marks_of

Value = str | float | tuple[str, ...]


@dataclass(frozen=True)
class Needs:
    """Annotates an option that means nothing without another one.

    Args:
        option: the other one.
        why: what the option is or does, which follows its name and value in the message.
        example: a value of the other one that helps.
        only: no other value of it does.
    """

    option: str
    why: str
    example: Value
    only: bool = False

    def __str__(self) -> str:
        return f"Needs {_name(self.option, self.example if self.only else None)}."

    def check(self, name: str, requested: Mapping[str, Any]) -> None:
        """Raise OptionError where ``name`` is given and the other option is not."""
        if self.option not in requested or (self.only and requested[self.option] != self.example):
            raise OptionError(
                f"{name}={_write_value(requested[name])} {self.why}; give {write_option(self.option, self.example)}, "
                f"or leave {name} out."
            )


@dataclass(frozen=True)
class Excludes:
    """Annotates an option that does not go together with another one.

    Args:
        option: the other one.
        why: of both, what follows their names and values in the message.
        instead: what helps.
        only: value of the other one that is meant; None = any.
    """

    option: str
    why: str = "do not go together"
    instead: str = "leave one of them out"
    only: Value | None = None

    def __str__(self) -> str:
        return f"Not with {_name(self.option, self.only)}."

    def check(self, name: str, requested: Mapping[str, Any]) -> None:
        """Raise OptionError where both options are given."""
        if self.option in requested and self.only in (None, requested[self.option]):
            both = " and ".join(f"{option}={_write_value(requested[option])}" for option in (name, self.option))
            raise OptionError(f"{both} {self.why}; {self.instead}.")


def write_option(name: str, value: Value) -> str:
    """Return an option as a call and as a shell give it: ``until=0.5 (--until 0.5)``."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, tuple):
        return f"{name}={list(value)} ({flag} {','.join(value)})"
    return f"{name}={value!r} ({flag} {value})"


def _name(option: str, value: Value | None) -> str:
    """Return an option for a description, with the value that is meant."""
    return f"``{option}``" if value is None else f"``{option}={value!r}``"


def _write_value(value: Any) -> str:
    """Return a value as it is given; of an object with a text of its own, such as a schedule or a path, that text."""
    has_text = not isinstance(value, str) and "__str__" in type(value).__dict__
    text = str(value) if has_text else ""
    return describe_value(text if text and "\n" not in text else value)


def conditions_of(hint: Any) -> list[Needs | Excludes]:
    """Return the conditions that an option's annotation holds."""
    return [mark for mark in marks_of(hint) if isinstance(mark, Needs | Excludes)]


def require_conditions(options_type: type, values: Mapping[str, Any]) -> None:
    """Refuse options that lack another one, or that do not go together; values of other names are ignored.

    An option is given where its value is neither the default nor an empty list.

    Raises:
        OptionError: with what is missing, or in the way.
    """
    requested = {
        option.name: values[option.name]
        for option in fields(options_type)
        if option.name in values and _is_given(values[option.name], option.default)
    }
    hints = typing.get_type_hints(options_type, include_extras=True)
    for name in requested:
        for condition in conditions_of(hints[name]):
            condition.check(name, requested)


def _is_given(value: Any, default: Any) -> bool:
    """Say whether a value asks for something: it is neither the default nor an empty list."""
    if isinstance(value, Sized) and not isinstance(value, str) and not len(value):
        return False
    # an array or a table equals nothing as a whole
    return type(value) is not type(default) or bool(value != default)
