"""Parts of a run: some of its prompts, variables, and places along the depth."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.labels import weighed_by
from bathyscope.options import require_no_dict
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.merge import PROMPT

PLACES: Final = ("block", "boundary", "skipped", "dropped", "swapped", "start")
"""Dimensions along the depth of a model."""
_BOTH: Final = (*PLACES, "other", "boundary_other")
"""The same, with the second of two blocks or boundaries in results of pairs."""
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_MOST_LISTED: Final = 8
_OF_NAMES: Final = ("id",)
"""Dimensions of what tells the names of numbers, such as texts of tokens: of whichever prompts."""

Some = int | str | Sequence[int] | Sequence[str]
"""``"0-4,7"``, a number, or a list of the same."""


def prompts_named(prompts: Prompts, some: Some) -> list[int]:
    """Numbers of prompts that are named by number (``0-4,7``), by id, or by a label (``level=2``), in the run's order.

    Raises:
        OptionError: nothing is called so.
    """
    chosen: set[int] = set()
    for part in _parts(some):
        label, separator, value = part.partition("=")
        numbers = _range(part)
        if part in prompts.names:
            numbers_of_part = [prompts.names.index(part)]
        elif separator and label in prompts.labels:
            numbers_of_part = [
                number for number, label_value in enumerate(prompts.label(label)) if str(label_value) == value
            ]
        elif _has_ids_of_other_places(numbers, prompts.names):
            numbers_of_part = _ids_in_range(part, numbers, prompts.names)
        elif numbers and numbers[-1] < len(prompts):
            numbers_of_part = list(numbers)
        else:
            numbers_of_part = []
        if not numbers_of_part:
            if separator and label in prompts.labels:
                values = list(dict.fromkeys(map(str, prompts.label(label))))
                listed = ", ".join(elided(text, 20) for text in values[:_MOST_LISTED])
                more = " …" if len(values) > _MOST_LISTED else ""
                raise OptionError(f"No prompt of this run has {part!r}. Values of {label} here: {listed}{more}.")
            meant = did_you_mean(part, prompts.names) if part.strip("-0123456789") else ""
            raise OptionError(
                f"No prompt of this run is {part!r}.{meant} Name prompts by number (0 to "
                f"{len(prompts) - 1}, such as 0-4,7), by id, or by a label ("
                f"{', '.join(f'{name}=…' for name in prompts.labels) or 'of which these prompts have none'})."
            )
        chosen.update(numbers_of_part)
    return sorted(chosen)


def _has_ids_of_other_places(numbers: range, names: Sequence[str]) -> bool:
    """Return whether a number of a range is the id of a prompt at another place."""
    by_place = ((place, int(name)) for place, name in enumerate(names) if name.isdecimal() and len(name) <= 18)
    return any(number in numbers and number != place for place, number in by_place)


def _ids_in_range(part: str, numbers: range, names: Sequence[str]) -> list[int]:
    """Return the prompts whose ids a range names: a number that is an id means that id, alone and in a range.

    Raises:
        OptionError: some of its numbers are ids and others are not, so that it may mean ids or places.
    """
    unnamed = next((number for number in numbers if str(number) not in names), None)
    if unnamed is not None:
        raise OptionError(
            f"{part!r} may mean ids or places, since some of its numbers are ids of this run and {unnamed} is none. "
            "List the prompts one by one."
        )
    return [names.index(str(number)) for number in numbers]


def of_prompts(datasets: Mapping[str, xr.Dataset], numbers: Sequence[int]) -> dict[str, xr.Dataset]:
    """What results say of some prompts; what they say of all together is not among it."""
    selected = {}
    for name, dataset in datasets.items():
        by_prompt = dataset[
            [
                variable
                for variable, values in dataset.data_vars.items()
                if PROMPT in values.dims or values.dims == _OF_NAMES
            ]
        ]
        # Labels of prompts may accompany results of all prompts together.
        if not any(PROMPT in values.dims for values in by_prompt.data_vars.values()):
            continue
        if PROMPT not in dataset.coords:
            selected[name] = by_prompt.isel({PROMPT: list(numbers)})
            continue
        present = [number for number in dataset[PROMPT].values.tolist() if number in numbers]
        # a dataset of fewer prompts says which they are
        selected[name] = by_prompt.sel({PROMPT: present}).assign_coords(
            {PROMPT: [list(numbers).index(n) for n in present]}
        )
    return selected


def of_all_prompts(datasets: Mapping[str, xr.Dataset]) -> list[str]:
    """What results say of all prompts together: names of measures, and of variables of those that say more."""
    names = []
    for name, dataset in datasets.items():
        together = {variable: values for variable, values in dataset.data_vars.items() if values.dims != _OF_NAMES}
        of_all = [str(variable) for variable, values in together.items() if PROMPT not in values.dims]
        if of_all and len(of_all) == len(together):
            names.append(name)
        elif of_all:
            names.append(f"{name}.{of_all[0]}" + (f" and {len(of_all) - 1} more" if len(of_all) > 1 else ""))
    return names


def of_variables(datasets: Mapping[str, xr.Dataset], some: Some) -> dict[str, xr.Dataset]:
    """The measures that have variables of these names, with these alone, and with how many tokens their means are over.

    Raises:
        OptionError: no measure has one of them.
    """
    names = _parts(some)
    variables = list(dict.fromkeys(str(name) for dataset in datasets.values() for name in dataset.data_vars))
    unknown = next((name for name in names if name not in variables), None)
    if unknown is not None:
        raise OptionError(
            f"No measure here has a variable {unknown!r}.{did_you_mean(unknown, variables)} "
            f"There are {', '.join(variables)}."
        )
    selected = {}
    for measure, dataset in datasets.items():
        if chosen := [name for name in dataset.data_vars if name in names]:
            # Counts of tokens accompany the values as coordinates, and are no results themselves.
            counts = [name for name in weighed_by(dataset) if name not in names]
            selected[measure] = dataset[[*chosen, *counts]].set_coords(counts)
    return selected


def of_places(datasets: Mapping[str, xr.Dataset], some: Some) -> dict[str, xr.Dataset]:
    """Results at some blocks, and at the boundaries of the same numbers.

    Raises:
        OptionError: no number of a block, or one that is not there.
    """
    places = {
        int(place)
        for dataset in datasets.values()
        for dim in _BOTH
        if dim in dataset.dims
        for place in dataset[dim].values
    }
    chosen: set[int] = set()
    for part in _parts(some):
        numbers = _range(part)
        if not numbers:
            raise OptionError(f"blocks={part!r} is no number of a block; give numbers or ranges such as 0-5,7.")
        beyond = next((number for number in numbers if number not in places), None)
        if places and beyond is not None:
            raise OptionError(f"There is no block or boundary {beyond}; there are {min(places)} to {max(places)}.")
        chosen.update(numbers if places else ())
    selected = {}
    for name, dataset in datasets.items():
        is_chosen = {dim: np.isin(dataset[dim].values, list(chosen)) for dim in _BOTH if dim in dataset.dims}
        selected[name] = dataset.isel({dim: np.flatnonzero(mask) for dim, mask in is_chosen.items()})
    return selected


def is_by_place(dataset: xr.Dataset) -> bool:
    """Return whether results have any values by block or boundary, of which some can be selected."""
    return any(dim in dataset.dims for dim in _BOTH)


def _parts(some: Some) -> list[str]:
    require_no_dict(some, "select")
    listed: Iterable[object] = (
        some.split(",") if isinstance(some, str) else some if isinstance(some, Iterable) else [some]
    )
    parts = [part for item in listed if (part := str(item).strip())]
    if not parts:
        raise OptionError(f"{some!r} selects nothing; name what is wanted, or leave it out for everything.")
    return parts


def _range(text: str) -> range:
    """``3`` and ``0-4`` as numbers; nothing for another text."""
    match = _NUMBERS.fullmatch(text)
    # The caller lists the numbers: twelve digits of a mistyped range would fill the memory.
    return range(0) if match is None or len(text) > 12 else range(int(match[1]), int(match[2] or match[1]) + 1)
