"""Data sets in the papers' formats (``published``), and those of other packages.

Another package declares one by an entry point of the group ``bathyscope.datasets``, under the data set's name: a
``DataSet``, or something to call that gives one. It is loaded when a source first names it.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any, Final

from bathyscope.core.plug_ins import declared, taken
from bathyscope.prompts.datasets.dataset import DataSet
from bathyscope.prompts.datasets.published import DATA_SETS

GROUP: Final = "bathyscope.datasets"
REGISTRY: Final = MappingProxyType({dataset.name: dataset for dataset in DATA_SETS})
"""Every data set of this package by its name, in alphabetical order."""


def names() -> tuple[str, ...]:
    """Names of all data sets, those of other packages last."""
    return (*REGISTRY, *_entry_points())


def data_set(name: str) -> DataSet | None:
    """Return the data set of a name; None where the name is unknown.

    None too where another package declares it and it cannot be used; a warning then names that declaration.
    """
    return REGISTRY[name] if name in REGISTRY else _plugged_in(name)


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in declared(GROUP) if point.name not in REGISTRY}


@cache
def _plugged_in(name: str) -> DataSet | None:
    point = _entry_points().get(name)
    return None if point is None else taken(point, "The data set", _read)


def _read(point: EntryPoint) -> DataSet:
    loaded: Any = point.load()
    entry = loaded if isinstance(loaded, DataSet) else loaded()
    if not isinstance(entry, DataSet) or entry.name != point.name:
        description = f"one called {entry.name!r}" if isinstance(entry, DataSet) else type(entry).__name__
        raise TypeError(f"a DataSet called {point.name!r} is expected, and {description} was given")
    return entry
