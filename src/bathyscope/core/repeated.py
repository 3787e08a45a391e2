"""Warnings that would be shown again for each of several surveys of the same prompts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

Remark = tuple[type[Warning], str]


@contextmanager
def noting() -> Iterator[set[Remark]]:
    """Note the warnings that are shown inside.

    Example:
        >>> from bathyscope.errors import warn
        >>> with noting() as shown_already, leaving_out({(UserWarning, "known")}):
        ...     warn("known")
        >>> shown_already
        set()
    """
    remarks: set[Remark] = set()

    def note(remark: Remark) -> bool:
        remarks.add(remark)
        return True

    with _looking_at(note):
        yield remarks


@contextmanager
def leaving_out(remarks: Set[Remark]) -> Iterator[None]:
    """Leave out warnings that were shown already; all others are shown, as often as they arise."""
    with _looking_at(lambda remark: remark not in remarks):
        yield


@contextmanager
def _looking_at(is_shown: Callable[[Remark], bool]) -> Iterator[None]:
    """Ask of each warning whether it is shown; filters decide before, so that one that they hide is not asked for."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def ask(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
            if is_shown((category, str(message))):
                show(message, category, *place, **further)

        warnings.showwarning = ask
        yield
