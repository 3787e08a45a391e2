"""A stand-in for the library's cache: it copies keys and values out, and lends a tail its prefix.

Every attention block calls ``update(keys, values, layer)`` exactly once, after rotary embedding, and attends
over what comes back. The layer index is ignored: the object belongs to one call of one block.
"""

from typing import Any

import torch
from torch import Tensor


class CaptureCache:
    """Holds what the block attends over: ``keys``, ``values`` [rows, heads, tokens, head width].

    Args:
        keys, values: [rows, heads, ≥ start, head width] of donor rows, which are put in front of a tail's own.
        start: first token the rows own; those before it are the donors'.
    """

    # some families ask the cache whether it may hold compiled or sliding layers
    is_compileable = False

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None, start: int = 0) -> None:
        self.keys, self.values = keys, values
        self.calls = 0
        self._start = start

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int = 0, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Join prefix and own keys and values along the tokens; without a prefix, return the own ones as they are."""
        self.calls += 1
        if self._start:
            if self.keys is None or self.values is None:
                raise RuntimeError("a tail was run on a block whose donor rows gave no keys and values")
            key_states = torch.cat([self.keys[:, :, : self._start], key_states], dim=2)
            value_states = torch.cat([self.values[:, :, : self._start], value_states], dim=2)
        self.keys, self.values = key_states, value_states
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens before the ones being computed."""
        return self._start
