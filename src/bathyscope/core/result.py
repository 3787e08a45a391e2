"""What every verb that acts on a model returns: numbers, a few sentences, a table, and one record for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@runtime_checkable
class Result(Protocol):
    """A result. Commands and pages print all of them alike."""

    @property
    def data(self) -> xr.Dataset:
        """The numbers, as labelled arrays."""

    @property
    def text(self) -> str:
        """What was found; the first sentence is the conclusion."""

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table: a row for every candidate, rung, exit, window or task."""

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record."""
