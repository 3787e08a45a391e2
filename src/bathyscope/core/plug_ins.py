"""What other packages declare by entry points: known by its name, and loaded only when it is asked for."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from bathyscope.errors import warn

Found = TypeVar("Found")


def declared(group: str) -> list[EntryPoint]:
    """The entry points of a group in the order of their names, none of them loaded."""
    return sorted(entry_points(group=group), key=lambda point: point.name)


def taken(point: EntryPoint, what: str, read: Callable[[EntryPoint], Found]) -> Found | None:
    """What ``read`` makes of a plug-in; None where it cannot be used, with a warning that names it.

    Args:
        what: the beginning of the warning: what the plug-in should have given.
    """
    try:
        return read(point)
    # whatever another package raises is its own fault, and no reason to stop everything else
    except Exception as error:
        warn(
            f"{what} of the plug-in {point.name} ({point.value}) cannot be used, {type(error).__name__}: {error}. "
            "Update the package that declares it, or uninstall it."
        )
        return None
