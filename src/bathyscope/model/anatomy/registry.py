"""All known families: the tables in ``families/``, and what other packages declare under ``bathyscope.families``."""

import importlib
import pkgutil
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any

from bathyscope.core.plug_ins import declared, taken
from bathyscope.model.anatomy import families as package
from bathyscope.model.anatomy.family import Family

GROUP = "bathyscope.families"
"""Entry points of this group name a ``Family``, several, or a callable that gives them."""


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    """Return every family declared here, refused ones included, table by table."""
    tables = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    declarations = tuple(
        family for name in tables for family in importlib.import_module(f"{package.__name__}.{name}").FAMILIES
    )
    index(declarations)  # refuses a model type that two tables claim
    return declarations


@lru_cache(maxsize=1)
def plugged_in() -> tuple[Family, ...]:
    """Return the families of other packages, in the order of their entry points' names.

    One that cannot be read is left out with a warning that names it.
    """
    return tuple(family for entry in declared(GROUP) for family in taken(entry, "The families", _read) or ())


def _read(entry: EntryPoint) -> tuple[Family, ...]:
    loaded: Any = entry.load()
    value = loaded() if callable(loaded) else loaded
    entries = (value,) if isinstance(value, Family) else tuple(value) if isinstance(value, Iterable) else (value,)
    wrong = next((entry for entry in entries if not isinstance(entry, Family)), None)
    if wrong is not None:
        raise TypeError(f"a Family or several are expected, and {type(wrong).__name__} was given")
    return entries


def family_for(model_type: str) -> Family | None:
    """Return the family that covers ``config.model_type``, or None where it is not known.

    Other packages are asked only where no table here has the type; reading their declaration is also what lets them
    make their model types known to transformers. A family whose ``refused`` is set is returned too, so that the
    caller can give the reason.
    """
    declared_here = index(families()).get(model_type)
    if declared_here is not None or not model_type:
        return declared_here
    return next((family for family in plugged_in() if model_type in family.model_types), None)


def index(members: tuple[Family, ...]) -> dict[str, Family]:
    """Map model types to families.

    Raises:
        ValueError: two families share a name or claim the same model type.
    """
    names = [family.name for family in members]
    by_type: dict[str, Family] = {}
    for family in members:
        if names.count(family.name) > 1:
            raise ValueError(f"two families are named {family.name!r}; give each its own name")
        for model_type in family.model_types:
            if model_type in by_type:
                raise ValueError(
                    f"model type {model_type!r} is claimed by {by_type[model_type].name!r} and by "
                    f"{family.name!r}; leave it in one of them"
                )
            by_type[model_type] = family
    return by_type
