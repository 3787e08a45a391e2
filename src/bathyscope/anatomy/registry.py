"""All known families, found by walking the package, and the family of a given model type."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from bathyscope.anatomy import families as package
from bathyscope.anatomy.family import Family


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    """Every declared family, refused ones included, in the order of their module names.

    Raises:
        ValueError: two families claim one model type or one name (a fault of the package itself).
    """
    found = tuple(
        importlib.import_module(f"{package.__name__}.{module.name}").FAMILY
        for module in pkgutil.iter_modules(package.__path__)
    )
    index(found)
    return found


def family_for(model_type: str) -> Family | None:
    """The family that covers ``config.model_type``, or None where it is not known.

    A family whose ``refused`` is set is returned too, so that the caller can give the reason.
    """
    return index(families()).get(model_type)


def make_known(model_type: str) -> None:
    """Imports what implements a model type that the library does not have; nothing where it has it.

    Its module is named in the family's file and not imported here, since it may lie further out in the program.
    """
    family = family_for(model_type)
    if family is not None and family.implementation is not None:
        importlib.import_module(family.implementation)


def index(declared: tuple[Family, ...]) -> dict[str, Family]:
    """Model type → family.

    Raises:
        ValueError: two families share a name or claim the same model type.
    """
    names = [family.name for family in declared]
    by_type: dict[str, Family] = {}
    for family in declared:
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
