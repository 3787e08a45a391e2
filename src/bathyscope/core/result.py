"""What every verb that acts on a model returns: numbers, a few sentences, a table, and one record for programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from bathyscope.core.text import html_table, shown
from bathyscope.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@runtime_checkable
class Result(Protocol):
    """A result. Commands and pages print all of them alike."""

    @property
    def data(self) -> xr.Dataset | xr.DataTree:
        """The numbers, as labelled arrays; of a run a dataset for every measure."""

    @property
    def text(self) -> str:
        """What was measured, in at most three sentences; the first is the conclusion."""

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table: a row for every candidate, rung, exit, window, task, map or head."""

    def record(self) -> Any:
        """Return everything as one JSON record, or the rows of the table as a list."""


def result_html(result: Result) -> str:
    """Return what a notebook shows of a result: its sentences, and the first rows of its table."""
    table = result.to_dataframe()
    rows = [[_write_cell(value) for value in row] for row in table.itertuples(index=False)]
    return f"<p>{escape(shown(result.text))}</p>{html_table(list(table.columns), rows)}"


def _write_cell(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


@dataclass(frozen=True, eq=False, repr=False)
class LabelledResult:
    """A labelled dataset with its conclusion.

    Its arrays, coordinates and attributes can be reached without ``data``: ``result["cka"]``, ``result.cka``.

    Args:
        data: the numbers, as labelled arrays.
        text: the conclusion, in at most three sentences.
        tabulate: makes the table of the data.
        fields: what the JSON record holds instead of the table's rows.
    """

    data: xr.Dataset
    text: str
    tabulate: Callable[[xr.Dataset], pd.DataFrame]
    fields: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return shown(f"<{type(self).__name__}: {self.text}>\n{self.data!r}", keep="\n")

    def _repr_html_(self) -> str:
        return result_html(self)

    def __getattr__(self, name: str) -> Any:
        # Copying looks attributes up before the fields are set, where forwarding would never end.
        if name.startswith("__") or name == "data":
            raise AttributeError(name)
        return getattr(self.data, name)

    def __getitem__(self, name: Hashable) -> xr.DataArray:
        try:
            return self.data[name]
        except KeyError:
            names = [str(key) for key in self.data]
            near = did_you_mean(str(name), names)
            raise OptionError(f"This result has no {name!r}.{near} It holds: {', '.join(names)}.") from None

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table."""
        return self.tabulate(self.data)

    def record(self) -> Any:
        """Return the JSON record: the rows of the table, or the fields of the result."""
        return rows_of(self.to_dataframe()) if self.fields is None else dict(self.fields)


def tabulate_over(
    data: xr.Dataset, columns: Sequence[str] | Mapping[str, str], over: Sequence[Hashable]
) -> pd.DataFrame:
    """Return a table with a row for every place of some variables.

    Args:
        columns: variables and coordinates, in order; name → heading where they differ.
        over: the dimensions, the slowest first.
    """
    names = list(columns)
    frame = data[[name for name in names if name not in over]].to_dataframe(dim_order=list(over)).reset_index()[names]
    return frame.rename(columns=dict(columns)) if isinstance(columns, Mapping) else frame


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, None in place of missing values."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


@dataclass(frozen=True, eq=False, repr=False)
class TableResult:
    """A table with its conclusion, for verbs that return a plain table.

    Args:
        frame: the table.
        text: the conclusion, in at most three sentences.
        fields: what the JSON record holds instead of the table's rows.
    """

    frame: pd.DataFrame
    text: str
    fields: Any = None

    @property
    def data(self) -> xr.Dataset:
        """The columns as arrays over rows."""
        import xarray as xr

        return xr.Dataset.from_dataframe(self.frame)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table."""
        return self.frame

    def record(self) -> Any:
        """Return the JSON record: the rows of the table, or what stands in their place."""
        return rows_of(self.frame) if self.fields is None else self.fields
