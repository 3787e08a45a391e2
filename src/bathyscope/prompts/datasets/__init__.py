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
REGISTRY: Final = MappingProxyType({one.name: one for one in DATA_SETS})
"""Every data set of this package by its name, in alphabetical order."""


def names() -> tuple[str, ...]:
    """Names of all data sets, those of other packages last."""
    return (*REGISTRY, *_entry_points())


def data_set(name: str) -> DataSet | None:
    """The data set of a name; None where there is none, or where another package declares it and it cannot be used.

    Of the latter a warning names the package's declaration.
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
    found = loaded if isinstance(loaded, DataSet) else loaded()
    if not isinstance(found, DataSet) or found.name != point.name:
        given = f"one called {found.name!r}" if isinstance(found, DataSet) else type(found).__name__
        raise TypeError(f"a DataSet called {point.name!r} is expected, and {given} was given")
    return found
