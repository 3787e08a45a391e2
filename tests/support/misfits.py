"""How a result differs from the table that labels it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import xarray as xr

from bathyscope.labels import Table

BLANK = re.compile(r"\{\w+=[^}]*\}")


def misfits(table: Table, dataset: xr.Dataset) -> Iterator[str]:
    """What a result has otherwise than its table says; nothing where they agree."""
    for name, label in table.items():
        if name not in dataset.data_vars:
            if not label.optional:
                yield f"{name} is missing"
            continue
        found = dataset[name]
        if found.dims not in (label.always, label.most):
            yield f"{name} has the dimensions {found.dims}; in its table {label.most}"
        for key in ("long_name", "units", "formula", "source", "direction"):
            if not matches(getattr(label, key), str(found.attrs.get(key, ""))):
                yield f"{name} says {key} {found.attrs.get(key)!r}; in its table {getattr(label, key)!r}"
    for unknown in set(dataset.data_vars) - set(table):
        yield f"{unknown} is not in its table"


def matches(text: str, found: str) -> bool:
    """Whether ``found`` is ``text`` with something in place of every blank."""
    return re.fullmatch(".+".join(map(re.escape, BLANK.split(text))), found, re.DOTALL) is not None
