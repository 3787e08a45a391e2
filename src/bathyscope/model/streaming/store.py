"""Blocks whose weights are brought when they run: a window of them is in memory, and the next one is on its way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.streaming.carrying import Carried, Shape, carrier_to
from bathyscope.model.streaming.files import CheckpointFile
from bathyscope.model.streaming.lending import register


class StoredTensor(Protocol):
    """Where one tensor is stored."""

    @property
    def file(self) -> CheckpointFile | None:
        """The file it is in; None = it is no file of a known kind."""
        ...

    def read(self, target: Tensor, stream: Any) -> int:
        """Fill ``target``, and return the bytes that were read; ``stream`` is of the open file."""
        ...


@dataclass(frozen=True)
class InFile:
    """A tensor of a safetensors file."""

    file: CheckpointFile
    name: str

    def read(self, target: Tensor, stream: Any) -> int:
        return self.file.read(stream, self.name, target)


@dataclass(frozen=True)
class Held:
    """A tensor that a function returns (weights on the host, arrays mapped by accelerate)."""

    give: Callable[[], Tensor]
    file: None = None

    def read(self, target: Tensor, stream: Any) -> int:
        target.copy_(self.give())
        return 0


@dataclass
class Readings:
    """How often weights were brought.

    Args:
        blocks: blocks, each time one was brought.
        bytes: read from files.
    """

    blocks: int = 0
    bytes: int = 0


Inspect = Callable[[Mapping[str, Tensor]], None]


class BlockStore:
    """Lends the blocks of one model.

    Args:
        blocks: with tensors on the meta device where they are elsewhere.
        paths: of the blocks in the model.
        tensors: for every block, where each such tensor is stored, by its path in the block.
        device: where blocks run.
        window: how many blocks stay in memory; None = as many as a wave asks for.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        paths: Sequence[str],
        tensors: Sequence[Mapping[str, StoredTensor]],
        device: torch.device,
        window: int | None = None,
    ) -> None:
        self.readings = Readings()
        # of tensors in files, by name, once their weights have been hashed
        self.digests: dict[str, bytes] = {}
        self.device = device
        self._blocks, self._paths, self._tensors = tuple(blocks), tuple(paths), tuple(tensors)
        self._fixed, self._window = window, window or 1
        self._absent = [_absent(block, places) for block, places in zip(blocks, tensors)]
        self._carrier = carrier_to(device)
        # one thread: a disk is no faster for two readers, and no more than one block is on its way
        self._pool = ThreadPoolExecutor(1, "bathyscope-blocks")
        # a dictionary for its order, in which blocks came
        self._here: dict[int, None] = {}
        self._lent = [0] * len(self._blocks)
        self._coming: tuple[int, Future[Carried]] | None = None
        self._last = self._before_last = -1
        self._inspect: Inspect | None = None
        register(self._blocks, self)
        for index, block in enumerate(self._blocks):
            block.__dict__["forward"] = _Lending(self, index, block.forward)

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise ModelError(
            "A model whose blocks are streamed cannot be copied, since its weights are not in memory; load it with "
            "placement='resident'."
        )

    @property
    def most_bytes(self) -> int:
        """What lent weights take at once if all blocks are the largest: swaps need two, and one is on its way."""
        return (self._window + 2) * max(sum(t.nbytes for t in absent.values()) for absent in self._absent)

    @property
    def names(self) -> set[str]:
        """Full names of all tensors that are brought."""
        return {f"{path}.{name}" for path, places in zip(self._paths, self._tensors) for name in places}

    @property
    def lasting(self) -> set[str]:
        """Full names of the tensors that stay as they are as long as their files do."""
        return {
            f"{path}.{name}"
            for path, places in zip(self._paths, self._tensors)
            for name, stored in places.items()
            if stored.file is not None
        }

    @property
    def repeated(self) -> set[str]:
        """Full names of tensors that are stored where another one of an earlier name is: they are shared."""
        first: dict[object, str] = {}
        for path, places in zip(self._paths, self._tensors):
            for name, stored in places.items():
                where = (id(stored.file), stored.name) if isinstance(stored, InFile) else id(stored)
                first.setdefault(where, f"{path}.{name}")
        return self.names - set(first.values())

    def absent(self, index: int) -> Mapping[str, Tensor]:
        """Return what replaces a block's weights while they are elsewhere, by name."""
        return self._absent[index]

    @contextmanager
    def lend(self, index: int) -> Iterator[None]:
        """Keep a block's weights in memory inside.

        Raises:
            ModelError: a file is missing, was cut short or has changed.
        """
        self._bring(index)
        self._lent[index] += 1
        try:
            yield
        finally:
            self._lent[index] -= 1
            self._let_go()

    @contextmanager
    def keeping(self, window: int) -> Iterator[None]:
        """Keep this many blocks in memory inside, once they are there, unless a window was fixed at load."""
        before = self._window
        self._window = self._fixed or max(1, window)
        try:
            yield
        finally:
            self._window = before
            self._let_go()

    @contextmanager
    def inspected(self, inspect: Inspect) -> Iterator[None]:
        """Show ``inspect`` the tensors of every block that is brought inside, by their names in the model."""
        # the one on its way has been read without it
        self._forget_coming()
        self._inspect = inspect
        try:
            yield
        finally:
            self._inspect = None

    def bring_all(self, inspect: Inspect) -> None:
        """Bring every block once, and show its tensors to ``inspect``."""
        self.release()
        with self.inspected(inspect):
            for index in range(len(self._blocks)):
                with self.lend(index):
                    pass

    def release(self) -> None:
        """Let go of everything that is not lent."""
        self._forget_coming()
        for index in [i for i in self._here if not self._lent[i]]:
            self._detach(index)

    def require_unchanged(self) -> None:
        """Refuse to go on where a file is missing or has changed since the model was loaded.

        Raises:
            ModelError: names the file.
        """
        files = (stored.file for places in self._tensors for stored in places.values())
        # each file once, in the order of the blocks
        for file in dict.fromkeys(file for file in files if file is not None):
            file.require_unchanged()

    def _bring(self, index: int) -> None:
        if index in self._here:
            return
        carried = self._arriving(index)
        self._let_go(room_for=1)
        carried.wait()
        for name, tensor in carried.tensors.items():
            _put(self._blocks[index], name, tensor)
        self._here[index] = None
        self.readings.blocks += 1
        self._send_for_next(index)

    def _arriving(self, index: int) -> Carried:
        """Return a block's tensors: those on their way, if it is they, or read now."""
        if self._coming is not None and self._coming[0] == index:
            coming, self._coming = self._coming[1], None
            return coming.result()
        return self._pool.submit(self._read, index).result()

    def _send_for_next(self, index: int) -> None:
        """Read the next block in the direction of the last visits, while this one runs."""
        # gradients visit the blocks backwards; two steps down show it, since a swap is one step down and then up
        down = self._before_last - self._last == self._last - index == 1
        self._before_last, self._last = self._last, index
        following = index - 1 if down else index + 1
        if self._coming is None and 0 <= following < len(self._blocks) and following not in self._here:
            self._coming = (following, self._pool.submit(self._read, following))

    def _forget_coming(self) -> None:
        if self._coming is not None:
            # waits for the reader, and drops its error: nobody needs the block any more
            self._coming[1].exception()
            self._coming = None

    def _read(self, index: int) -> Carried:
        """Read a block's tensors; runs in the thread that reads."""
        places = self._tensors[index]
        shapes = {name: Shape(tuple(tensor.shape), tensor.dtype) for name, tensor in self._absent[index].items()}

        def fill(host: Mapping[str, Tensor]) -> None:
            files = {id(stored.file): stored.file for stored in places.values() if stored.file is not None}
            with ExitStack() as stack:
                streams = {key: stack.enter_context(file.reading()) for key, file in files.items()}
                for name, stored in places.items():
                    self.readings.bytes += stored.read(host[name], streams.get(id(stored.file)))
            if self._inspect is not None:
                self._inspect({f"{self._paths[index]}.{name}": tensor for name, tensor in host.items()})

        with torch.no_grad():
            return self._carrier.bring(shapes, fill)

    def _let_go(self, room_for: int = 0) -> None:
        """Let go of the blocks that came first, as long as there are more than the window holds."""
        spare = len(self._here) + room_for - self._window
        for index in [i for i in self._here if not self._lent[i]][: max(0, spare)]:
            self._detach(index)

    def _detach(self, index: int) -> None:
        del self._here[index]
        for name, tensor in self._absent[index].items():
            _put(self._blocks[index], name, tensor)
        self._carrier.let_go()


class _Lending:
    """A streamed block's forward: it brings its own weights, unless they are lent already."""

    def __init__(self, store: BlockStore, index: int, forward: Callable[..., Any]) -> None:
        self._store, self._index, self._forward = store, index, forward
        update_wrapper(self, forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._store.lend(self._index):
            return self._forward(*args, **kwargs)


def _absent(block: nn.Module, names: Mapping[str, object]) -> dict[str, Tensor]:
    """Return what replaces tensors that are elsewhere."""
    placeholders: dict[str, Tensor] = {}
    for name in names:
        owner, _, last = name.rpartition(".")
        module = block.get_submodule(owner)
        tensor = module._parameters.get(last, module._buffers.get(last))
        assert tensor is not None
        placeholders[name] = tensor
    return placeholders


def _put(block: nn.Module, name: str, tensor: Tensor) -> None:
    owner, _, last = name.rpartition(".")
    module = block.get_submodule(owner)
    before = module._parameters.get(last)
    if before is not None:
        # as before, since torch chooses other kernels for what asks for gradients, also where none are computed
        parameter = tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, before.requires_grad)
        module._parameters[last] = parameter
    else:
        module._buffers[last] = tensor
