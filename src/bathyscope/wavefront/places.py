"""Places in tensors, told to a device without making Python wait for it."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def is_accelerator(device: torch.device) -> bool:
    """Whether calls cost more than their arithmetic, so that few and large ones are better."""
    return device.type != "cpu"


def at(numbers: Sequence[int], device: torch.device) -> slice | Tensor:
    """Numbers as a slice where they are neighbours (no copy), else as an index on the device.

    The waves of a survey visit the same places for every batch, so that an index is sent to an accelerator once.
    """
    if list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return slice(numbers[0], numbers[0] + len(numbers))
    return index(numbers, device)


def index(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Numbers as an index on the device; it is shared, and not to be written to."""
    return _kept(tuple(numbers), device)


def sent(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Numbers as a tensor on the device."""
    here = torch.tensor(numbers, dtype=torch.long)
    # from memory that the system does not move, the copy is the device's business alone
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)


@lru_cache(maxsize=1024)
def _kept(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return sent(numbers, device)
