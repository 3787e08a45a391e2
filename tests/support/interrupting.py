"""Ctrl-C in the middle of a survey, at a moment that the test chooses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bathyscope.wavefront.engine import Wavefront


@contextmanager
def interrupted_after(calls: int, owner: type = Wavefront, method: str = "run_convoy") -> Iterator[None]:
    """Inside, work must end in a KeyboardInterrupt: the method runs so often, and is interrupted the next time."""
    run, left = getattr(owner, method), calls

    def count(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return run(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, count)
        with pytest.raises(KeyboardInterrupt):
            yield
