"""Conditions between options: annotations of a dataclass, and the one check that calls and the command line share."""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from bathyscope.errors import OptionError, describe_value
from bathyscope.options import marks_of


@dataclass(frozen=True)
class Needs:
    """Annotates an option that means nothing without another one.

    Args:
        option: the other one.
        why: what the option is or does, which follows its name and value in the message.
        example: a value of the other one that helps.
    """

    option: str
    why: str
    example: str | float

    def __str__(self) -> str:
        return f"Needs ``{self.option}``."

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Raise OptionError where ``name`` is given and the other option is not."""
        if self.option not in given:
            raise OptionError(
                f"{name}={describe_value(given[name])} {self.why}; give {write(self.option, self.example)}, or leave "
                f"{name} out."
            )


@dataclass(frozen=True)
class Excludes:
    """Annotates an option that does not go together with another one.

    Args:
        option: the other one.
        why: of both, what follows their names and values in the message.
        instead: what helps; empty = leaving one of them out.
    """

    option: str
    why: str = "do not go together"
    instead: str = "leave one of them out"

    def __str__(self) -> str:
        return f"Not with ``{self.option}``."

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Raise OptionError where both options are given."""
        if self.option in given:
            both = " and ".join(f"{option}={describe_value(given[option])}" for option in (name, self.option))
            raise OptionError(f"{both} {self.why}; {self.instead}.")


def write(name: str, value: str | float) -> str:
    """Return an option as a call and as a shell give it: ``until=0.5 (--until 0.5)``."""
    flag = f"--{name.replace('_', '-')}"
    return f"{name}={value!r} ({flag if value is True else f'{flag} {value}'})"


def conditions_of(hint: Any) -> list[Needs | Excludes]:
    """Return the conditions that an option's annotation holds."""
    return [mark for mark in marks_of(hint) if isinstance(mark, Needs | Excludes)]


def require_conditions(options_type: type, values: Mapping[str, Any]) -> None:
    """Refuse options that lack another one, or that do not go together; values of other names are ignored.

    An option is given where its value is not the default.

    Raises:
        OptionError: with what is missing, or in the way.
    """
    given = {
        option.name: values[option.name]
        for option in fields(options_type)
        if option.name in values and _differs(values[option.name], option.default)
    }
    hints = typing.get_type_hints(options_type, include_extras=True)
    for name in given:
        for condition in conditions_of(hints[name]):
            condition.check(name, given)


def _differs(value: Any, default: Any) -> bool:
    """Say whether a value is not the default; an array or a table, which equals nothing as a whole, is not."""
    return type(value) is not type(default) or bool(value != default)
