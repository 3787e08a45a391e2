"""How much memory autograd keeps for the backward pass, measured while it keeps it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def saved_bytes(model: nn.Module) -> Iterator[Callable[[], int]]:
    """Gives a function that says how many bytes autograd has saved since it was last asked.

    Storages are counted once and the model's own not at all. Masks and rotary tables, which rows share, are counted
    too, so that the measure of one row is slightly too large for many.
    """
    known = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    since = 0

    def note(tensor: Tensor) -> Tensor:
        nonlocal since
        storage = tensor.untyped_storage()
        # what has been saved stays alive until the graph goes, so no address is used twice
        if storage._cdata not in known:
            known.add(storage._cdata)
            since += storage.nbytes()
        return tensor

    def asked() -> int:
        nonlocal since
        found, since = since, 0
        return found

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield asked
