"""From the host's memory to the device on which blocks run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes: kernels may add up in another order where an array begins elsewhere within so many.

Every weight on the host begins at a multiple, so that results do not depend on the file that it came from.
"""
_APART = 256


@dataclass(frozen=True)
class Shape:
    """A tensor to make room for."""

    sizes: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """What its numbers take."""
        return torch.Size(self.sizes).numel() * self.dtype.itemsize

    def within(self, memory_N: Tensor) -> Tensor:
        """The tensor in bytes that begin at a multiple of ``ALIGNMENT``."""
        return memory_N[: self.nbytes].view(self.dtype).view(self.sizes)


Shapes = Mapping[str, Shape]
Fill = Callable[[Mapping[str, Tensor]], None]


@dataclass(frozen=True)
class Carried:
    """A block's tensors on their device, and what must have happened before they are used; None = nothing."""

    tensors: Mapping[str, Tensor]
    arrived: Any = None

    def wait(self) -> None:
        """The device's current stream uses them from now on, once they have arrived."""
        if self.arrived is None or not self.tensors:  # a block that accelerate has left in memory brings none
            return
        stream = torch.cuda.current_stream(next(iter(self.tensors.values())).device)
        stream.wait_event(self.arrived)
        for tensor in self.tensors.values():
            tensor.record_stream(stream)


class Carrier(Protocol):
    """Makes room on the host, has it filled, and brings it to the device."""

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Tensors of these shapes on the device; ``fill`` is given their counterparts on the host."""
        ...

    def let_go(self) -> None:
        """Nobody holds some tensors any longer: all work on them has been told to the device, if not done."""
        ...


class InPlace:
    """Blocks run on the host: tensors are filled where they are used.

    All of a block is in one piece of memory, so large that it goes back to the system as soon as the block does; what
    is smaller is kept by a heap, in which the next blocks leave holes. It is not used again for the next block: whoever
    still holds a view of a weight holds memory of its own.
    """

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Fresh tensors, filled."""
        memory_N = torch.empty(sum(_rounded(one.nbytes) for one in shapes.values()), dtype=torch.uint8)
        tensors, start = {}, 0
        for name, shape in shapes.items():
            tensors[name] = shape.within(memory_N[start:])
            start += _rounded(shape.nbytes)
        fill(tensors)
        return Carried(tensors)

    def let_go(self) -> None:
        """Their memory is free at once."""


class Pinned:
    """Two pinned buffers on the host and a stream for copies: one is filled while the other is on its way.

    Python is far ahead of the device, and what it has let go of is free when the device has done with it. No tensor is
    made before that, so that there are never more on the device than whoever asks for them holds.

    Args:
        device: a CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._buffers: list[Tensor] = [torch.empty(0, dtype=torch.uint8)] * 2
        self._left: list[Any] = [None, None]
        self._turn = 0
        self._let_go: Any = None

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Filled in a pinned buffer and sent on its way; ``Carried.wait`` before use."""
        turn, self._turn = self._turn, 1 - self._turn
        if self._left[turn] is not None:
            self._left[turn].synchronize()  # what this buffer held last has left it
        host = self._views(turn, shapes)
        fill(host)
        if self._let_go is not None:
            self._let_go.synchronize()
        with torch.cuda.stream(self._stream):
            tensors = {name: one.to(self._device, non_blocking=True) for name, one in host.items()}
            self._left[turn] = torch.cuda.Event()
            self._left[turn].record(self._stream)
        return Carried(tensors, self._left[turn])

    def let_go(self) -> None:
        """Their memory is free when the device has come to this point."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        self._let_go = event

    def _views(self, turn: int, shapes: Shapes) -> dict[str, Tensor]:
        needed = sum(_rounded(shape.nbytes) for shape in shapes.values())
        if self._buffers[turn].numel() < needed:
            self._buffers[turn] = torch.empty(needed, dtype=torch.uint8, pin_memory=True)
        views, start = {}, 0
        for name, shape in shapes.items():
            views[name] = Shape(shape.sizes, shape.dtype).within(self._buffers[turn][start:])
            start += _rounded(shape.nbytes)
        return views


def carrier_to(device: torch.device) -> Carrier:
    """What brings tensors to a device."""
    if device.type == "cuda":
        return Pinned(device)
    return InPlace() if device.type == "cpu" else _Plain(device)


@dataclass(frozen=True)
class _Plain:
    """Any other device: one copy after another."""

    device: torch.device

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Filled on the host, then copied."""
        host = InPlace().bring(shapes, fill).tensors
        return Carried({name: one.to(self.device) for name, one in host.items()})

    def let_go(self) -> None:
        """Their memory is the device's business."""


def _rounded(size: int) -> int:
    return -(-size // _APART) * _APART
