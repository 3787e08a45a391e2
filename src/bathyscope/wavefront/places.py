"""Indices into tensors, sent to a device without making Python wait for it."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def is_accelerator(device: torch.device) -> bool:
    """Say whether calls cost more than their arithmetic, so that few and large ones are better."""
    return device.type != "cpu"


def at(numbers: Sequence[int], device: torch.device) -> slice | Tensor:
    """Return numbers as a slice where they are neighbours (no copy), else as an index on the device.

    The waves of a survey visit the same places for every batch, so that an index is sent to an accelerator once.
    """
    if list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return slice(numbers[0], numbers[0] + len(numbers))
    return index(numbers, device)


def index(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Return numbers as an index on the device; it is shared, so nobody may write to it."""
    return _cached_index(tuple(numbers), device)


def sent(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Return numbers as a tensor on the device."""
    numbers_cpu = torch.tensor(numbers, dtype=torch.long)
    # From pinned memory, which the system does not move, the device copies on its own.
    return numbers_cpu.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers_cpu.to(device)


@lru_cache(maxsize=1024)
def _cached_index(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return sent(numbers, device)
