"""A stretch of blocks or tokens as a caller gives it: a slice, a range, or text such as ``4-19``."""

import re

from bathyscope.core.text import elided
from bathyscope.errors import OptionError

Stretch = slice | range | str
"""``slice(4, 20)``, ``range(4, 20)`` or ``"4-19"``."""


def read_stretch(stretch: object, name: str, count: int) -> range:
    """Return the places of a stretch, as a range of step 1.

    Args:
        name: of the argument.
        count: how many places there are.

    Raises:
        OptionError: something else, a step, or no place among them.
    """
    places = _read_places(stretch, count)
    if places is None or places.step != 1 or not places or places.start < 0 or places.stop > count:
        raise OptionError(
            f"{name}={elided(repr(stretch), 40)} is no stretch of the {count} {name} (0 to {count - 1}). Give "
            f"slice(0, {max(1, count // 2)}), or '0-{max(1, count // 2) - 1}'."
        )
    return places


def _read_places(stretch: object, count: int) -> range | None:
    if isinstance(stretch, range):
        return stretch
    if isinstance(stretch, slice):
        bounds = (stretch.start, stretch.stop, stretch.step)
        if not all(bound is None or (isinstance(bound, int) and not isinstance(bound, bool)) for bound in bounds):
            return None
        if stretch.step == 0:
            return None
        # Python cuts slices silently; a block that the model does not have is more likely a mistake.
        if stretch.stop is not None and stretch.stop > count:
            return None
        return range(*stretch.indices(count))
    if isinstance(stretch, str) and (match := re.fullmatch(r"(\d+)(?:-(\d+))?", stretch.strip())):
        first = int(match[1])
        return range(first, int(match[2] or first) + 1)
    return None
