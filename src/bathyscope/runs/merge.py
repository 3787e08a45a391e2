"""Batches → a shard, shards → a run: concatenation along ``prompt``, sums added, shorter dimensions padded."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from bathyscope.errors import OptionError, StoreError

PROMPT = "prompt"
MERGE = "merge"


def require_by_prompt(results: Mapping[str, xr.Dataset], prompts: int) -> None:
    """Refuses results that are not by prompt, nor partial sums, and could not be put together with those of others.

    Results of some of the prompts have their numbers as the coordinate ``prompt``.

    Raises:
        OptionError: names the measure, the variable and its dimensions.
    """
    for measure, dataset in results.items():
        count = min(prompts, dataset.sizes[PROMPT]) if PROMPT in dataset.coords else prompts
        for name, values in dataset.data_vars.items():
            is_sum = values.attrs.get(MERGE) == "sum" and PROMPT not in values.dims
            if not is_sum and values.sizes.get(PROMPT) != count:
                raise OptionError(
                    f"{measure} gives {name} with the dimensions {dict(values.sizes)}; allowed: a dimension 'prompt' "
                    f"of {prompts}, in the order of the prompts, and any others."
                )


def merge(parts: Sequence[Mapping[str, xr.Dataset]], prompts: Sequence[int] | None = None) -> dict[str, xr.Dataset]:
    """Parts of a run → one dataset a measure.

    Args:
        prompts: numbers of the parts' prompts, one part after the other; results come in their order. None = the parts
            are in order. A dataset of some prompts tells their numbers itself.

    Where other dimensions differ in length (``token``), the shorter parts are padded at their end: floats
    with NaN, text with "", and integers and truth values become float64 with NaN. Nothing padded, nothing
    converted. Variables with ``merge="sum"`` are added in the order of the parts. Attributes that parts do
    not share are left out.

    Raises:
        StoreError: parts that hold different measures, variables, dimensions or labels.
    """
    names = list(parts[0])
    for part in parts:
        _require(set(part) == set(names), "run", f"measures {sorted(part)} and {sorted(names)}")
    merged = {name: _merged(name, [part[name] for part in parts]) for name in names}
    if prompts is None:
        return merged
    return {name: _in_order(dataset, prompts) for name, dataset in merged.items()}


def _in_order(dataset: xr.Dataset, prompts: Sequence[int]) -> xr.Dataset:
    # Measures of some prompts say which by coordinate; the others have all, in the order of the shards.
    numbers = dataset[PROMPT].values if PROMPT in dataset.coords else prompts
    return dataset.isel({PROMPT: np.argsort(numbers, kind="stable")}, missing_dims="ignore")


def _merged(name: str, parts: Sequence[xr.Dataset]) -> xr.Dataset:
    first = parts[0]
    for part in parts:
        same = list(part.variables) == list(first.variables) and set(part.coords) == set(first.coords)
        _require(same, name, f"variables {list(part.variables)} and {list(first.variables)}")
    variables = {
        label: _variable(f"{name}.{label}", [part.variables[label] for part in parts]) for label in first.variables
    }
    return xr.Dataset(
        {label: variables[label] for label in first.data_vars},
        coords={label: variables[label] for label in first.coords},
        attrs=_shared(parts),
    )


def _variable(where: str, parts: Sequence[xr.Variable]) -> xr.Variable:
    dims = parts[0].dims
    for part in parts:
        _require(part.dims == dims, where, f"dimensions {part.dims} and {dims}")
        _require(part.dtype.kind == parts[0].dtype.kind, where, f"types {part.dtype} and {parts[0].dtype}")
    if PROMPT in dims:
        values = _concatenated(parts)
    elif parts[0].attrs.get(MERGE) == "sum":
        values = _added(where, parts)
    else:
        values = _longest(where, parts)
    return xr.Variable(dims, values, _shared(parts))


def _concatenated(parts: Sequence[xr.Variable]) -> np.ndarray:
    axis = parts[0].dims.index(PROMPT)
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    shape[axis] = sum(part.shape[axis] for part in parts)
    padded = any(part.shape[i] < size for part in parts for i, size in enumerate(shape) if i != axis)
    # Integers have no value for "missing": padded ones become floats, which are exact up to 2⁵³.
    dtype = np.result_type(*(part.dtype for part in parts))
    if padded and dtype.kind in "iub":
        dtype = np.dtype(np.float64)
    whole = np.full(shape, np.nan if dtype.kind == "f" else np.zeros((), dtype), dtype)
    start = 0
    for part in parts:
        corner = [slice(size) for size in part.shape]
        corner[axis] = slice(start, start + part.shape[axis])
        whole[tuple(corner)] = part.values
        start += part.shape[axis]
    return whole


def _added(where: str, parts: Sequence[xr.Variable]) -> np.ndarray:
    # One after the other, in the order of the shards, so that rounding is the same however work was shared out.
    total = parts[0].values.copy()
    for part in parts[1:]:
        _require(part.shape == total.shape, where, f"shapes {part.shape} and {total.shape}")
        total = total + part.values
    return total


def _longest(where: str, parts: Sequence[xr.Variable]) -> np.ndarray:
    """Labels of a dimension that shards may have at different lengths: each must begin the longest."""
    longest = max((part.values for part in parts), key=lambda values: values.size)
    for part in parts:
        beginning = longest[tuple(slice(size) for size in part.shape)]
        same = np.array_equal(beginning, part.values, equal_nan=longest.dtype.kind == "f")
        _require(same, where, f"labels {part.values.tolist()} and {longest.tolist()}")
    return longest


def _shared(parts: Sequence[xr.Dataset] | Sequence[xr.Variable]) -> dict[str, object]:
    return {key: value for key, value in parts[0].attrs.items() if all(_same(p.attrs.get(key), value) for p in parts)}


def _same(first: object, second: object) -> bool:
    return first == second or (first != first and second != second)  # NaN is the same as NaN


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise StoreError(
            f"The shards of {where} disagree: {what}. Shards of one run must have the same form; "
            "delete the run's folder and measure again."
        )
