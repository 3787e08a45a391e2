"""What every verb that acts on a model returns: numbers, a few sentences, a table, and one record for programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from bathyscope.core.above import from_above
from bathyscope.core.tables import TextTable, frame_table, html_table
from bathyscope.core.text import legible
from bathyscope.errors import OptionError, describe_value, did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_FOUR_DIGITS: Final = ".4g"
_NEW_LINE: Final = "\n"


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

    def tables(self) -> list[TextTable]:
        """Return what people read of it, the table of the rows first: terminal, pages and Markdown print these."""

    def picture(self) -> Any:
        """Return its figure as matplotlib draws it; None where it has none."""


def require_arrays(data: object, where: str) -> None:
    """Refuse a result of anything but labelled arrays, which would fail where it is first read.

    Raises:
        OptionError: neither a dataset nor a tree of them.
    """
    import xarray as xr

    if not isinstance(data, xr.Dataset | xr.DataTree):
        raise OptionError(
            f"{where} takes labelled arrays (xarray.Dataset or DataTree); {describe_value(data)} given. Take results "
            "from the call that makes them, or from bathyscope.open(FOLDER)."
        )


class TabledResult:
    """What results share: a table, its printed forms, and a picture by its name.

    A result of its own kind has ``data``, ``text`` and ``to_dataframe()``, and whatever it says differently.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # sentences name models, prompts and candidates that others have named, and are printed as they are
        sentences = vars(cls).get("text")
        if isinstance(sentences, property) and sentences.fget is not None:
            written = sentences.fget
            cls.text = property(  # type: ignore[method-assign, assignment]
                lambda self: legible(written(self), keep=_NEW_LINE), doc=sentences.__doc__
            )

    def __post_init__(self) -> None:
        fields = vars(self)
        if "data" in fields:
            require_arrays(fields["data"], f"{type(self).__name__}: data")
        # and those that are stored instead of computed
        if "text" in fields:
            object.__setattr__(self, "text", legible(self.text, keep=_NEW_LINE))

    figure: str = ""
    """Which picture shows it (``pages.figures.results``); empty where none does."""

    if TYPE_CHECKING:

        @property
        def data(self) -> Any: ...

        @property
        def text(self) -> str: ...

        def to_dataframe(self) -> pd.DataFrame: ...

    @property
    def table(self) -> Any:
        """The table of ``to_dataframe``."""
        return self.to_dataframe()

    @property
    def _outline(self) -> str:
        """What its representation says behind the name of its kind, such as `` of m: 3 windows``."""
        return f": {self.text}"

    def __repr__(self) -> str:
        return legible(f"<{type(self).__name__}{self._outline}>")

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the sentences, and the first rows of the table."""
        frame = self.to_dataframe()
        rows = frame_table(frame).cells(_FOUR_DIGITS)
        return f"<p>{escape(legible(self.text))}</p>{html_table(list(frame.columns), rows, most=20, letters=80)}"

    def record(self) -> Any:
        """Return the JSON record: the rows of the table."""
        return rows_of(self.to_dataframe())

    def tables(self) -> list[TextTable]:
        """Return what people read of it, the table of the rows first."""
        return [frame_table(self.to_dataframe())]

    def picture(self) -> Any:
        """Return its figure as matplotlib draws it; None where it has none."""
        return from_above("picture")(self) if self.figure else None


class PageResult(TabledResult):
    """A result with a section of its own on a page, above the runs."""

    kind: str
    """Such as ``plan``."""

    @property
    def heading(self) -> str:
        """The heading of its section."""
        raise NotImplementedError

    @property
    def models(self) -> tuple[Any, ...]:
        """Identities of the models that it is of, as far as it tells them."""
        raise NotImplementedError

    def without_words(self) -> Self:
        """Return the same result without the words of prompts and predictions."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class LabelledResult(TabledResult):
    """A labelled dataset with its conclusion.

    Its arrays, coordinates and attributes can be reached without ``data``: ``result["cka"]``, ``result.cka``.

    Args:
        data: the numbers, as labelled arrays.
        text: the conclusion, in at most three sentences.
        tabulate: makes the table of the data.
        fields: what the JSON record holds instead of the table's rows.
        figure: name of its picture; empty where it has none.
        lay_out: makes the tables for people; None = the table of the data is the only one.
    """

    data: xr.Dataset
    text: str
    tabulate: Callable[[xr.Dataset], pd.DataFrame]
    fields: Mapping[str, Any] | None = None
    figure: str = field(default="", kw_only=True)
    lay_out: Callable[[xr.Dataset], list[TextTable]] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{legible(repr(self.data), keep=_NEW_LINE)}"

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
        return super().record() if self.fields is None else dict(self.fields)

    def tables(self) -> list[TextTable]:
        """Return the tables for people."""
        return super().tables() if self.lay_out is None else self.lay_out(self.data)


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
class TableResult(TabledResult):
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
        """Return the JSON record: the rows of the table, or what takes their place."""
        return super().record() if self.fields is None else self.fields
