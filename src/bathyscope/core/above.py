"""Code of higher rooms by name, for objects of lower ones; the package, which is above both, fills the table."""

from collections.abc import Mapping
from typing import Any, Final

from bathyscope.core.lazy import load_name

_PLACES: Final[dict[str, str]] = {}


def enter_above(places: Mapping[str, str]) -> None:
    """Enter where code of higher rooms is: name → ``module:attribute``."""
    _PLACES.update(places)


def from_above(name: str) -> Any:
    """Return what was entered under a name; it is imported when it is first asked for.

    Raises:
        AttributeError: nothing was entered under it.
    """
    return load_name("bathyscope", _PLACES, name)
