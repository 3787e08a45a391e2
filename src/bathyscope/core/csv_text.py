"""Tables as CSV: exact, or with no cell that a spreadsheet would run as a formula."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a text begins with that a spreadsheet takes for a formula, or trims until it does."""
_SAFE: ContextVar[bool] = ContextVar("safe_csv", default=False)


@contextmanager
def written_safely(safe: bool = True) -> Iterator[None]:
    """Texts that begin as a formula does are written behind an apostrophe inside of this; numbers stay numbers."""
    token = _SAFE.set(safe)
    try:
        yield
    finally:
        _SAFE.reset(token)


def csv_text(frame: pd.DataFrame) -> str:
    r"""Return a table with its headings, without its index; missing values are empty, lines end in ``\n``."""
    if _SAFE.get():
        import numpy as np
        import pandas as pd

        frame = frame.rename(columns=_quoted)
        for place in range(frame.shape[1]):
            column = frame.iloc[:, place]
            if not pd.api.types.is_numeric_dtype(column):
                # as objects, or whole numbers beside others would be written as these are
                frame.isetitem(place, np.array([_quoted(cell) for cell in column], dtype=object))
    return frame.to_csv(index=False, lineterminator="\n")


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
