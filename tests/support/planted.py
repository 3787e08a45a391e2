"""Which planted models every run of the tests surveys: a survey of each takes seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

QUICK: Final = frozenset(("identity", "relay", "rotated", "shared_weights", "sink", "backup"))
"""Models whose blocks do nothing, one thing, it elsewhere, all the same, it for one token, and it once more."""


def swept(names: Iterable[str]) -> list[Any]:
    """These models as values of a test's parameter; all but ``QUICK`` are for ``make test-thorough`` alone."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in names]
