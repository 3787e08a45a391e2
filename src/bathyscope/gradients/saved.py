"""How much memory autograd keeps for the backward pass, measured while it keeps it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class SavedBytes:
    """Counts, while entered, the storages that autograd saves, each once and the model's own not at all.

    ``marked`` gets the bytes between one call of ``mark`` and the next. Masks and rotary tables, which rows share,
    are counted too, so that the measure of one row is slightly too large for many.
    """

    def __init__(self, model: nn.Module) -> None:
        tensors = [*model.parameters(), *model.buffers()]
        self._known = {t.untyped_storage().data_ptr() for t in tensors}
        self._since_mark = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._note, _same)
        self.marked: list[int] = []

    def mark(self) -> None:
        """Ends one count and begins the next."""
        self.marked.append(self._since_mark)
        self._since_mark = 0

    def __enter__(self) -> SavedBytes:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        # what has been saved stays alive until the graph goes, so no address is used twice
        if storage.data_ptr() not in self._known:
            self._known.add(storage.data_ptr())
            self._since_mark += storage.nbytes()
        return tensor


def _same(tensor: Tensor) -> Tensor:
    return tensor
