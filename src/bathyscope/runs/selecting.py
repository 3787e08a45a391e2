"""Parts of a run: some of its prompts, variables, and places along the depth."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.labels import weighed_by
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.merge import PROMPT

PLACES: Final = ("block", "boundary", "skipped", "dropped", "swapped", "start")
"""Dimensions along the depth of a model."""
_BOTH: Final = (*PLACES, "other", "boundary_other")
"""The same, with the second of two blocks or boundaries in results of pairs."""
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_OF_NAMES: Final = ("id",)
"""Dimensions of what tells the names of numbers, such as texts of tokens: of whichever prompts."""

Some = int | str | Sequence[int] | Sequence[str]
"""``"0-4,7"``, a number, or a list of the same."""


def prompts_named(prompts: Prompts, some: Some) -> list[int]:
    """Numbers of prompts that are named by number (``0-4,7``), by id, or by a label (``level=2``), in the run's order.

    Raises:
        OptionError: nothing is called so.
    """
    found: set[int] = set()
    for part in _parts(some):
        label, separator, value = part.partition("=")
        numbers = _range(part)
        if part in prompts.names:
            own = [prompts.names.index(part)]
        elif separator and label in prompts.labels:
            own = [number for number, held in enumerate(prompts.label(label)) if str(held) == value]
        elif numbers and numbers[-1] < len(prompts):
            own = list(numbers)
        else:
            own = []
        if not own:
            known = [*prompts.names, *(f"{name}=" for name in prompts.labels)]
            raise OptionError(
                f"No prompt of this run is {part!r}.{did_you_mean(part, known)} Name prompts by number (0 to "
                f"{len(prompts) - 1}, such as 0-4,7), by id, or by a label ("
                f"{', '.join(f'{name}=…' for name in prompts.labels) or 'of which these prompts have none'})."
            )
        found.update(own)
    return sorted(found)


def of_prompts(datasets: Mapping[str, xr.Dataset], numbers: Sequence[int]) -> dict[str, xr.Dataset]:
    """What results say of some prompts; what they say of all together is not among it."""
    found = {}
    for name, dataset in datasets.items():
        names = [one for one, values in dataset.data_vars.items() if PROMPT in values.dims or values.dims == _OF_NAMES]
        # labels of prompts may stand beside results of all of them
        if not any(PROMPT in dataset[one].dims for one in names):
            continue
        by_prompt = dataset[names]
        if PROMPT not in dataset.coords:
            found[name] = by_prompt.isel({PROMPT: list(numbers)})
            continue
        own = [number for number in dataset[PROMPT].values.tolist() if number in numbers]
        # a dataset of fewer prompts says which they are
        found[name] = by_prompt.sel({PROMPT: own}).assign_coords({PROMPT: [list(numbers).index(n) for n in own]})
    return found


def of_all_prompts(datasets: Mapping[str, xr.Dataset]) -> list[str]:
    """What results say of all prompts together: names of measures, and of variables of those that say more."""
    found = []
    for name, dataset in datasets.items():
        together = {one: values for one, values in dataset.data_vars.items() if values.dims != _OF_NAMES}
        own = [str(one) for one, values in together.items() if PROMPT not in values.dims]
        if own and len(own) == len(together):
            found.append(name)
        elif own:
            found.append(f"{name}.{own[0]}" + (f" and {len(own) - 1} more" if len(own) > 1 else ""))
    return found


def of_variables(datasets: Mapping[str, xr.Dataset], some: Some) -> dict[str, xr.Dataset]:
    """The measures that have variables of these names, with these alone, and with how many tokens their means are over.

    Raises:
        OptionError: no measure has one of them.
    """
    names = _parts(some)
    there = list(dict.fromkeys(str(name) for dataset in datasets.values() for name in dataset.data_vars))
    unknown = next((name for name in names if name not in there), None)
    if unknown is not None:
        raise OptionError(
            f"No measure here has a variable {unknown!r}.{did_you_mean(unknown, there)} There are {', '.join(there)}."
        )
    found = {}
    for measure, dataset in datasets.items():
        if chosen := [name for name in dataset.data_vars if name in names]:
            # as counts of tokens are: beside the values, and none of them
            beside = [name for name in weighed_by(dataset) if name not in names]
            found[measure] = dataset[[*chosen, *beside]].set_coords(beside)
    return found


def of_places(datasets: Mapping[str, xr.Dataset], some: Some) -> dict[str, xr.Dataset]:
    """Results at some blocks, and at the boundaries of the same numbers.

    Raises:
        OptionError: no number of a block, or one that is not there.
    """
    places = {int(place) for one in datasets.values() for dim in _BOTH if dim in one.dims for place in one[dim].values}
    wanted: set[int] = set()
    for part in _parts(some):
        numbers = _range(part)
        if not numbers:
            raise OptionError(f"blocks={part!r} is no number of a block; give numbers or ranges such as 0-5,7.")
        beyond = next((number for number in numbers if number not in places), None)
        if places and beyond is not None:
            raise OptionError(f"There is no block or boundary {beyond}; there are {min(places)} to {max(places)}.")
        wanted.update(numbers if places else ())
    found = {}
    for name, dataset in datasets.items():
        own = {dim: np.isin(dataset[dim].values, list(wanted)) for dim in _BOTH if dim in dataset.dims}
        found[name] = dataset.isel({dim: np.flatnonzero(kept) for dim, kept in own.items()})
    return found


def _parts(some: Some) -> list[str]:
    given: Iterable[object] = (
        some.split(",") if isinstance(some, str) else some if isinstance(some, Iterable) else [some]
    )
    found = [part for one in given if (part := str(one).strip())]
    if not found:
        raise OptionError(f"{some!r} selects nothing; name what is wanted, or leave it out for everything.")
    return found


def _range(text: str) -> range:
    """``3`` and ``0-4`` as numbers; nothing for another text."""
    found = _NUMBERS.fullmatch(text)
    return range(0) if found is None or len(text) > 12 else range(int(found[1]), int(found[2] or found[1]) + 1)
