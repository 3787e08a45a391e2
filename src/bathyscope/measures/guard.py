"""Measures from outside the package, watched: what they do to others and what they get wrong is reported by name.

All probes of a survey look at the same tensors. Torch counts the writes into each, so that looking at the count
before and after a probe is enough to catch one that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, Final

import numpy as np
import xarray as xr
from torch import Tensor

from bathyscope.core.text import elided
from bathyscope.errors import BathyscopeError, OptionError, is_out_of_memory, warn
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts

PROMPT: Final = "prompt"
_SHOWN_VIEWS: Final = ("baseline", "rows", "row_parts", "landed", "finish")
_OTHER_METHODS: Final = ("block_done", "after", "result", "noise")


def is_own(measure: Measure[Any]) -> bool:
    """Whether a measure is the package's own, which its tests watch."""
    return type(measure).__module__.startswith("bathyscope.")


@contextmanager
def told_by_name(measure: Measure[Any], place: str) -> Iterator[None]:
    """Inside, whatever a measure from outside the package raises names it.

    Args:
        place: what is asked of the measure, such as ``prepare()``.

    Raises:
        OptionError: in place of any error that is not meant for the user.
    """
    if is_own(measure):
        yield
        return
    with _named(measure.name, place):
        yield


def watched(measure: Measure[Any], probe: Any) -> MeasureProbe:
    """Return a measure's probe; that of a measure from outside the package then refuses what would harm others.

    Raises:
        OptionError: no probe, or one whose ``__init__`` does not call its base class's.
    """
    if is_own(measure):
        return probe
    name = measure.name
    if not isinstance(probe, MeasureProbe):
        raise OptionError(
            f"The measure {name} gives a {type(probe).__name__} in probe(). Return a bathyscope.extend.MeasureProbe."
        )
    if not hasattr(probe, "requests"):
        raise OptionError(
            f"The probe of the measure {name} has no requests. Begin {type(probe).__name__}.__init__ with "
            "super().__init__()."
        )
    for method in _SHOWN_VIEWS:
        setattr(probe, method, _watching(name, method, getattr(probe, method)))
    for method in _OTHER_METHODS:
        setattr(probe, method, _naming(name, method, getattr(probe, method)))
    return probe


def require_options(measure: Measure[Any]) -> None:
    """Raise OptionError for a measure whose ``__init__`` does not call its base class's."""
    if not hasattr(measure, "options"):
        raise OptionError(
            f"The measure {measure.name} has no options. Begin {type(measure).__name__}.__init__ with "
            "super().__init__(options)."
        )


def require_dataset(measure: Measure[Any], result: Any, place: str = "result()") -> xr.Dataset:
    """Return what a probe gives as its result; an OptionError where it is no dataset.

    Args:
        place: what gives it; only the result of a batch is by prompt.
    """
    if is_own(measure):
        return result
    by_prompt = " whose variables begin with the dimension 'prompt'" if place == "result()" else ""
    if not isinstance(result, xr.Dataset):
        raise OptionError(
            f"The measure {measure.name} gives a {type(result).__name__} in {place}. Return an xarray.Dataset"
            f"{by_prompt}."
        )
    if not result.data_vars:
        raise OptionError(
            f"The measure {measure.name} gives a dataset without variables in {place}. Return one"
            f"{by_prompt or ' that has some'}."
        )
    return result


def require_shapes(measure: Measure[Any], result: xr.Dataset, facts: ModelFacts, picked: Sequence[int]) -> None:
    """Refuse results of a measure from outside the package with dimensions that nothing here can read.

    Args:
        picked: numbers of the batch's prompts.

    Raises:
        OptionError: names the measure, the variable, its shape, and the shape that was expected.
    """
    if is_own(measure):
        return
    for name, values in result.data_vars.items():
        if len(set(values.dims)) < values.ndim:
            raise OptionError(
                f"The measure {measure.name} gives {name} with the dimensions {values.dims} of {list(values.shape)}; "
                "expected: dimensions of different names."
            )
        for dim, numbers, what in _expected(facts, picked):
            if dim not in values.dims:
                continue
            stated = result[dim].values.tolist() if dim in result.coords else None
            if stated is None and dim != PROMPT and values.sizes[dim] != len(numbers):
                expected = f"{dim!r} of {len(numbers)}, {what}, or a coordinate {dim!r} with the number of each"
            elif stated is not None and not _are_some(stated, numbers):
                expected = f"{dim!r} numbered by {_numbered(dim, numbers, what)}"
            else:
                continue
            raise OptionError(
                f"The measure {measure.name} gives {name} with the dimensions {dict(values.sizes)}"
                f"{'' if stated is None else f', {dim!r} being {elided(repr(stated), 40)}'}; expected: {expected}."
            )


def _expected(facts: ModelFacts, picked: Sequence[int]) -> tuple[tuple[str, Sequence[int], str], ...]:
    """Return the dimensions that the program reads: their names, the numbers along them, and what these are."""
    return (
        (PROMPT, picked, "in the order of the prompts"),
        ("block", range(facts.n_blocks), "the model's blocks"),
        ("boundary", range(facts.n_blocks + 1), "the model's boundaries"),
    )


def _numbered(dim: str, numbers: Sequence[int], what: str) -> str:
    if dim == PROMPT:
        return (
            f"some of {elided(repr(list(numbers)), 40)}, each once; or a dimension 'prompt' of {len(numbers)}, {what}"
        )
    return f"whole numbers from 0 to {len(numbers) - 1}, each once"


def _are_some(values: list[Any], numbers: Sequence[int]) -> bool:
    """Return whether these are some of the numbers, each once."""
    are_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return are_whole and len(set(values)) == len(values) and set(values) <= set(numbers)


class Forms:
    """The form of each measure's results in the first batch, which all others have to have as well."""

    def __init__(self) -> None:
        self._forms: dict[str, dict[str, tuple[tuple[Hashable, ...], np.dtype[Any]]]] = {}

    def require_same(self, measure: Measure[Any], result: xr.Dataset) -> None:
        """Refuse results of a measure from outside the package that cannot be joined with those of its first batch.

        Raises:
            OptionError: names the measure, the variable, and both forms.
        """
        if is_own(measure):
            return
        form = {str(name): (values.dims, values.dtype) for name, values in result.data_vars.items()}
        first = self._forms.setdefault(measure.name, form)
        if list(form) != list(first):
            raise OptionError(
                f"The measure {measure.name} gives {', '.join(form)}; expected: the same variables as in the first "
                f"batch, {', '.join(first)}."
            )
        for name, (dims, dtype) in form.items():
            if dims != first[name][0] or dtype.kind != first[name][1].kind:
                raise OptionError(
                    f"The measure {measure.name} gives {name} with the dimensions {dims}, of {dtype}; expected: the "
                    f"same as in the first batch, {first[name][0]}, of {first[name][1]}."
                )


def warn_of_nan(measure: Measure[Any], merged: xr.Dataset) -> None:
    """Warn of variables of a measure from outside the package that are NaN for every prompt."""
    if is_own(measure):
        return
    for name, values in merged.data_vars.items():
        if values.dtype.kind == "f" and values.size and bool(values.isnull().all()):
            warn(f"{measure.name}.{name} is NaN for every prompt. The run keeps it; check what the measure computes.")


def _watching(name: str, method: str, see: Callable[..., None]) -> Callable[..., None]:
    @wraps(see)
    def watch(view: Any) -> None:
        block = getattr(view, "block", None)
        place = f"{method}()" if block is None else f"{method}() at block {block}"
        # Torch counts in-place writes in ``_version``, which autograd relies on; no copy of the view is needed.
        before = {id(tensor): tensor._version for _, tensor in _tensors(view)}
        with _named(name, place):
            see(view)
        # what the view forms when it is first asked for it, such as the size of a change, is new
        changed = [(field, tensor) for field, tensor in _tensors(view) if tensor._version != before.get(id(tensor), 0)]
        # of a tensor and its other shapes, whose writes count together, it is named itself
        bases = {id(tensor) for _, tensor in changed}
        written = {field for field, tensor in changed if tensor._base is None or id(tensor._base) not in bases}
        if written:
            # rows are parts of one buffer, of which torch counts the writes together
            what = written.pop() if len(written) == 1 else "a tensor"
            raise OptionError(
                f"The measure {name} writes into {what} of its view in {place}, which other measures read too. "
                "Change a copy: tensor.clone()."
            )

    return watch


def _naming(name: str, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def named(*args: Any, **options: Any) -> Any:
        with _named(name, f"{method}()"):
            return call(*args, **options)

    return named


@contextmanager
def _named(name: str, place: str) -> Iterator[None]:
    try:
        yield
    except BathyscopeError as error:
        if type(error) is not OptionError or place != "result()":
            raise
        # of the functions that make its arrays, which do not know whose they are
        raise OptionError(f"The measure {name} failed in {place}: {error}") from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise OptionError(
            f"The measure {name} failed in {place} with {reason}. Correct its code; the traceback shows the line (in "
            "a shell with --debug)."
        ) from error


def _tensors(value: Any, field: str = "") -> Iterator[tuple[str, Tensor]]:
    """Go through the tensors of a view with the field that each is in; those of lists and nested views too."""
    if isinstance(value, Tensor):
        yield field, value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item, field)
    elif isinstance(value, Sequence) and not isinstance(value, str | range):
        for item in value:
            yield from _tensors(item, field)
    elif is_dataclass(value) and type(value).__module__.startswith("bathyscope.wavefront."):
        for name, item in vars(value).items():
            yield from _tensors(item, field or name)
