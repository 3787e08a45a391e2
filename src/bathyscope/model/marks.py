"""Marks of tensors: whether they are still what they were, told in one pass on the device that they are on.

A mark holds sums of a tensor's 32-bit words, each times an odd number of 64 bits of its own, in the arithmetic of 64
bits. One word that changes always changes it, since an odd number divides no power of two; several leave it as it is
with a chance of 2⁻³² or less, unless somebody who knows the numbers wants it so. A mark is no hash: it serves to tell
that nothing has happened.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

Mark = tuple[tuple[int, ...], torch.dtype, tuple[int, ...]]
"""Sizes, dtype, and the sums of some words at a time."""
_WORDS: Final = 1 << 20
_CACHED_WORDS: Final = 1 << 17
"""Words that a CPU multiplies at a time: their products, of 64 bits, stay in a core's cache."""


@torch.no_grad()
def marks_of(tensors: Mapping[str, Tensor]) -> dict[str, Mark]:
    """The mark of each tensor, by its name; a device is waited for once."""
    plain = {name: value.detach() for name, value in tensors.items()}
    sums = {name: [_weighted_sum(words) for words in _words(value)] for name, value in plain.items()}
    by_device: dict[torch.device, list[Tensor]] = {}
    for name, value in plain.items():
        by_device.setdefault(value.device, []).extend(sums[name])
    numbers = {device: iter(torch.stack(parts).tolist() if parts else ()) for device, parts in by_device.items()}
    return {
        name: (tuple(value.shape), value.dtype, tuple(next(numbers[value.device]) for _ in sums[name]))
        for name, value in plain.items()
    }


def _weighted_sum(words_N: Tensor) -> Tensor:
    """Sum words times their factors, in whole numbers of 64 bits."""
    factors_N = _factors(words_N.device)[: len(words_N)]
    if words_N.device.type != "cpu":
        return (words_N * factors_N).sum()
    # new arrays of several MiB would come from the system each time, which takes ten times as long as the products
    products_N = torch.empty(_CACHED_WORDS, dtype=torch.int64)
    pairs = zip(words_N.split(_CACHED_WORDS), factors_N.split(_CACHED_WORDS))
    sums = [products_N[: len(words)].copy_(words).mul_(factors).sum() for words, factors in pairs]
    return torch.stack(sums).sum()


def chunks(value: Tensor, most: int) -> Iterator[Tensor]:
    """The values in their order, in flat pieces of at most this many bytes, views wherever memory allows it."""
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
