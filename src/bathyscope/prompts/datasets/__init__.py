"""Data sets in the papers' formats, one file each.

A file in this folder that holds ``DATA_SET = DataSet(...)`` is a data set; nothing else registers it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bathyscope.prompts.datasets.dataset import DataSet


@cache
def registry() -> Mapping[str, DataSet]:
    """Every data set by its name, in alphabetical order."""
    modules = (import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    found = [module.DATA_SET for module in modules if hasattr(module, "DATA_SET")]
    return MappingProxyType({data_set.name: data_set for data_set in sorted(found, key=lambda item: item.name)})
