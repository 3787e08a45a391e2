"""From the host's memory to the device on which blocks run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bathyscope.model.shards import is_shard

ALIGNMENT = 64
"""Bytes: kernels may add up in another order where an array begins elsewhere within such a stretch.

Every weight on the host begins at a multiple, so that results do not depend on the file that it came from.
"""
_APART = 256
"""Bytes: tensors of a block begin at multiples of it, which is itself a multiple of ``ALIGNMENT``."""


@dataclass(frozen=True)
class Shape:
    """A tensor to make room for."""

    sizes: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """How many bytes its numbers take."""
        return torch.Size(self.sizes).numel() * self.dtype.itemsize

    def within(self, memory_N: Tensor) -> Tensor:
        """Return the tensor in bytes that begin at a multiple of ``ALIGNMENT``."""
        return memory_N[: self.nbytes].view(self.dtype).view(self.sizes)


Shapes = Mapping[str, Shape]
Fill = Callable[[Mapping[str, Tensor]], None]


@dataclass(frozen=True)
class Carried:
    """A block's tensors on their device, and what must have happened before they are used; None = nothing."""

    tensors: Mapping[str, Tensor]
    arrived: Any = None

    def wait(self) -> None:
        """Let the device's current stream use them from now on, once they have arrived."""
        # a block that accelerate has left in memory brings none
        if self.arrived is None or not self.tensors:
            return
        stream = torch.cuda.current_stream(next(iter(self.tensors.values())).device)
        stream.wait_event(self.arrived)
        # made on the stream of copies, whose allocator would reuse their memory while this one still reads it
        for tensor in self.tensors.values():
            tensor.record_stream(stream)


def align(hf: nn.Module) -> None:
    """Move weights in the host's memory to addresses that are multiples of a cache line.

    Products round in another order where a weight begins elsewhere. Weights mapped from a file begin where the file has
    them, so that the same model would give other last bits from another file: in shards, in one piece, unpacked.
    """
    for value in hf.parameters():
        # parts of split weights are where transformers has put them, which no bit of another number of ranks equals
        if not is_shard(value.data) and value.device.type == "cpu" and value.data_ptr() % ALIGNMENT:
            value.data = value.data.clone(memory_format=torch.contiguous_format)


class Carrier(Protocol):
    """Makes room on the host, has it filled, and brings it to the device."""

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Bring tensors of these shapes to the device; ``fill`` is given their counterparts on the host."""
        ...

    def let_go(self) -> None:
        """Note that some tensors are not used any longer: all work on them has been queued on the device."""
        ...


class InPlace:
    """Blocks run on the host: tensors are filled where they are used.

    All of a block is in one piece of memory, so large that it goes back to the system as soon as the block does; what
    is smaller is kept by a heap, in which the next blocks leave holes. It is not used again for the next block: whoever
    still holds a view of a weight holds memory of its own.
    """

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Make fresh tensors, filled."""
        tensors = _lay_out(shapes, torch.empty(_bytes_of(shapes), dtype=torch.uint8))
        fill(tensors)
        return Carried(tensors)

    def let_go(self) -> None:
        """Do nothing: their memory is free at once."""


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
        """Fill a pinned buffer and send it on its way; ``Carried.wait`` before use."""
        turn = self._turn
        self._turn = 1 - turn
        # what this buffer held last must have left it
        if self._left[turn] is not None:
            self._left[turn].synchronize()
        host = self._views(turn, shapes)
        fill(host)
        if self._let_go is not None:
            self._let_go.synchronize()
        with torch.cuda.stream(self._stream):
            tensors = {name: tensor.to(self._device, non_blocking=True) for name, tensor in host.items()}
            self._left[turn] = torch.cuda.Event()
            self._left[turn].record(self._stream)
        return Carried(tensors, self._left[turn])

    def let_go(self) -> None:
        """Note that their memory is free when the device has come to this point."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        self._let_go = event

    def _views(self, turn: int, shapes: Shapes) -> dict[str, Tensor]:
        needed = _bytes_of(shapes)
        # pinning takes longer than reading, so that a buffer serves all blocks that fit into it
        if self._buffers[turn].numel() < needed:
            self._buffers[turn] = torch.empty(needed, dtype=torch.uint8, pin_memory=True)
        return _lay_out(shapes, self._buffers[turn])


def carrier_to(device: torch.device) -> Carrier:
    """Return what brings tensors to a device."""
    if device.type == "cuda":
        return Pinned(device)
    return InPlace() if device.type == "cpu" else _Plain(device)


@dataclass(frozen=True)
class _Plain:
    """Any other device: one copy after another."""

    device: torch.device

    def bring(self, shapes: Shapes, fill: Fill) -> Carried:
        """Fill tensors on the host, then copy them."""
        host = InPlace().bring(shapes, fill).tensors
        return Carried({name: tensor.to(self.device) for name, tensor in host.items()})

    def let_go(self) -> None:
        """Do nothing: their memory is the device's business."""


def _bytes_of(shapes: Shapes) -> int:
    """Return how many bytes tensors take one behind another."""
    return sum(_rounded(shape.nbytes) for shape in shapes.values())


def _lay_out(shapes: Shapes, memory_N: Tensor) -> dict[str, Tensor]:
    """Return tensors that lie one behind another in one piece of memory."""
    tensors: dict[str, Tensor] = {}
    start = 0
    for name, shape in shapes.items():
        tensors[name] = shape.within(memory_N[start:])
        start += _rounded(shape.nbytes)
    return tensors


def _rounded(size: int) -> int:
    return -(-size // _APART) * _APART
