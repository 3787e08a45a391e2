"""Arguments of a block, and how they change with the rows and tokens that it runs.

A block is replayed, never rewritten, so its recorded arguments (masks, rotary tables, position ids, ALiBi
biases, …) must fit other batches than the recorded one: more rows, or only the last tokens. Which axis of
an argument means what is found by recording the same model on three small batches and comparing shapes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bathyscope.errors import ModelError

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Axes:
    """What the axes of one tensor argument mean.

    Args:
        batch: an axis counts batch entries (``multiplier`` of them for each, e.g. heads for BLOOM's ALiBi); otherwise
            the tensor broadcasts over the batch.
        multiplier: entries of that axis for each batch entry; 1 where it is not the first.
        query: the axis that counts the tokens being computed, which a tail slices; None = none.
        shared: all sequences of a recording have the same values, so that one serves every row.
        batch_axis: the axis that counts batch entries; the second where tokens are in front of the rows (XLNet).
    """

    batch: bool
    multiplier: int = 1
    query: int | None = None
    shared: bool = False
    batch_axis: int = 0


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Yield all tensors inside nested tuples, lists and dictionaries, with their paths."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, (*path, str(key)))
    elif isinstance(value, tuple | list):
        for index, inner in enumerate(value):
            yield from walk(inner, (*path, index))


def rebuild(value: Any, change: Callable[[Path, Tensor], Tensor], path: Path = ()) -> Any:
    """Return the same nested structure with every tensor replaced by ``change(path, tensor)``."""
    if isinstance(value, Tensor):
        return change(path, value)
    if isinstance(value, Mapping):
        return type(value)({key: rebuild(inner, change, (*path, str(key))) for key, inner in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple | list):
        inner = [rebuild(item, change, (*path, index)) for index, item in enumerate(value)]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    return value


def infer_axes(small: Tensor, wider: Tensor, longer: Tensor, sizes: tuple[int, int, int, int]) -> Axes:
    """Infer the axes of one argument from its shapes in three recordings.

    Args:
        small, wider, longer: the argument at batch × tokens B×T, B′×T and B×T′.
        sizes: (B, T, B′, T′).
    """
    batch, tokens, wide, long = sizes
    per_batch = [i for i, (a, b) in enumerate(zip(small.shape, wider.shape)) if a != b]
    per_token = [i for i, (a, b) in enumerate(zip(small.shape, longer.shape)) if a != b]
    multiplier, batch_axis = 1, per_batch[0] if per_batch else 0
    if per_batch:
        few, many = small.shape[batch_axis], wider.shape[batch_axis]
        multiplier = few // batch
        readable = len(per_batch) == 1 and (few, many) == (multiplier * batch, multiplier * wide)
        if not readable or (batch_axis and multiplier > 1):
            raise ModelError(f"A block argument of shape {tuple(small.shape)} has no readable batch axis.")
    grown = [(small.shape[i], longer.shape[i]) for i in per_token]
    if len(per_token) > 2 or not all(_counts_tokens(few, many, tokens, long) for few, many in grown):
        raise ModelError(f"A block argument of shape {tuple(small.shape)} has no readable token axis.")
    # tables of distances are longer than the tokens; a tail takes them whole, and its check says whether that is right
    per_token = [i for i, sizes_of_axis in zip(per_token, grown) if sizes_of_axis == (tokens, long)]
    # A token axis that is last behind a singleton (batch·heads × 1 × T: ALiBi) counts keys, which a
    # tail needs in full; every other one (position ids, rotary tables, masks) counts queries first.
    of_keys = per_token == [small.ndim - 1] and small.ndim >= 3 and small.shape[-2] == 1
    query = per_token[0] if per_token and not of_keys else None
    return Axes(batch=bool(per_batch), multiplier=multiplier, query=query, batch_axis=batch_axis)


def _counts_tokens(few: int, many: int, tokens: int, long: int) -> bool:
    """Whether an axis has an entry for each token, several for each (ProphetNet), or some more (XLNet's distances)."""
    return few - tokens == many - long >= 0 or (few % tokens == 0 and few * long == many * tokens)


def default_axes(value: Tensor, batch: int, tokens: int) -> Axes | None:
    """Return the axes of an argument that appears only in longer recordings (a sliding mask), None if unreadable."""
    if value.ndim == 4 and value.shape[-2:] == (tokens, tokens) and value.shape[0] in (1, batch):
        return Axes(batch=value.shape[0] == batch, query=2)
    return None


def fit_rows(value: Tensor, axes: Axes, prompts: Tensor | None, rows: int, start: int) -> Tensor:
    """Fit one recorded argument to ``rows`` sequences that own the tokens from ``start`` on.

    Args:
        prompts: for every row the recorded sequence it belongs to, [rows]; None = they are the recorded ones, or all of
            one that is recorded alone.
    """
    if axes.query is not None and start:
        value = value.narrow(axes.query, start, value.shape[axes.query] - start)
    if not axes.batch:
        return value
    if axes.batch_axis:
        if axes.shared:
            shape = list(value.shape)
            shape[axes.batch_axis] = rows
            return value.narrow(axes.batch_axis, 0, 1).expand(shape)
        return value if prompts is None else value.index_select(axes.batch_axis, prompts)
    if axes.shared:
        value = value[: axes.multiplier]
        if axes.multiplier == 1:
            return value.expand(rows, *value.shape[1:])
        # heads are folded into the first axis, which a view cannot stretch
        return value.repeat(rows, *[1] * (value.ndim - 1))
    return value if prompts is None else value.unflatten(0, (-1, axes.multiplier))[prompts].flatten(0, 1)


def same_for_all(value: Tensor, axes: Axes, batch: int) -> bool:
    """Whether every recorded sequence got the same values of this argument."""
    if not axes.batch or batch == 1:
        return True
    value = value.movedim(axes.batch_axis, 0)
    grouped = value.reshape(batch, axes.multiplier, *value.shape[1:])
    return bool(torch.equal(grouped, grouped[:1].expand_as(grouped)))
