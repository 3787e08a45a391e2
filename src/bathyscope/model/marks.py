"""Marks of tensors: whether they are still what they were, told in one pass on the device that they are on.

A mark holds sums of a tensor's 32-bit words, each times an odd number of 64 bits of its own, in the arithmetic of 64
bits. One word that changes always changes it, since an odd number divides no power of two; several leave it as it is
with a chance of 2⁻³² or less, unless somebody who knows the numbers wants it so. A mark is no hash: it serves to tell
that nothing has happened.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import torch
from torch import Tensor

Mark = tuple[tuple[int, ...], torch.dtype, tuple[int, ...]]
"""Sizes, dtype, and the sums of some words at a time."""
_WORDS = 1 << 20


@torch.no_grad()
def marks_of(tensors: Mapping[str, Tensor]) -> dict[str, Mark]:
    """The mark of each tensor, by its name; a device is waited for once."""
    plain = {name: value.detach() for name, value in tensors.items()}
    sums = {
        name: [(words * _factors(value.device)[: len(words)]).sum() for words in _words(value)]
        for name, value in plain.items()
    }
    by_device: dict[torch.device, list[Tensor]] = {}
    for name, value in plain.items():
        by_device.setdefault(value.device, []).extend(sums[name])
    told = {device: iter(torch.stack(own).tolist() if own else ()) for device, own in by_device.items()}
    return {
        name: (tuple(value.shape), value.dtype, tuple(next(told[value.device]) for _ in sums[name]))
        for name, value in plain.items()
    }


def chunks(value: Tensor, most: int) -> Iterator[Tensor]:
    """The values in their order, in flat pieces of at most so many bytes, which are views wherever memory allows it."""
    if value.is_contiguous() or value.ndim < 2:
        yield from value.reshape(-1).split(most // value.element_size())
    else:
        for row in value.unbind(0):
            yield from chunks(row, most)


def _words(value: Tensor) -> Iterator[Tensor]:
    """The elements as whole numbers of 32 bits, some at a time."""
    size = torch.int32.itemsize
    for chunk in chunks(value, _WORDS * size):
        bytes_N = chunk.contiguous().view(torch.uint8)
        missing = -len(bytes_N) % size
        if missing:
            bytes_N = torch.nn.functional.pad(bytes_N, (0, missing))
        yield (bytes_N.clone() if bytes_N.storage_offset() % size else bytes_N).view(torch.int32)


@lru_cache(maxsize=4)
def _factors(device: torch.device) -> Tensor:
    draw = torch.Generator().manual_seed(20250519)
    limits = torch.iinfo(torch.int64)
    return torch.randint(limits.min, limits.max, (_WORDS,), generator=draw).bitwise_or_(1).to(device)
