"""Checks that the options of several experiments need."""

from __future__ import annotations

from bathyscope.errors import OptionError


def require_one_at_least(options: object, *names: str) -> None:
    """Refuses counts below 1.

    Raises:
        OptionError: names the option, what was given and what is allowed.
    """
    for name in names:
        if getattr(options, name) < 1:
            raise OptionError(f"{name}={getattr(options, name)} is out of range; give at least 1.")
