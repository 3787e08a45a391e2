"""Stand-ins for the library's cache: one that copies keys and values out, one that lends a tail its prefix.

Every attention block calls ``update(keys, values, layer)`` exactly once, after rotary embedding, and attends
over what comes back. The layer index is ignored: the object belongs to one call of one block.
"""

from typing import Any

import torch
from torch import Tensor


class CaptureCache:
    """Hands keys and values through and keeps them: ``keys``, ``values`` [rows, heads, tokens, head width]."""

    # some families ask the cache whether it may hold compiled or sliding layers
    is_compileable = False

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.calls = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int = 0, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Notes and returns the keys and values as they are."""
        self.keys, self.values = key_states, value_states
        self.calls += 1
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens before the ones being computed: none."""
        return 0


class TailCache(CaptureCache):
    """Puts a donor's keys and values of the tokens before ``start`` in front of a tail's own.

    Args:
        keys, values: [rows, heads, ≥ start, head width] of the donor rows.
        start: first token the tail owns.
    """

    def __init__(self, keys: Tensor | None, values: Tensor | None, start: int) -> None:
        super().__init__()
        self._prefix_keys, self._prefix_values = keys, values
        self._start = start

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int = 0, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Prefix and own keys and values, joined along the tokens."""
        self.calls += 1
        if self._prefix_keys is None or self._prefix_values is None:
            raise RuntimeError("a tail was run on a block whose donor rows gave no keys and values")
        self.keys = torch.cat([self._prefix_keys[:, :, : self._start], key_states], dim=2)
        self.values = torch.cat([self._prefix_values[:, :, : self._start], value_states], dim=2)
        return self.keys, self.values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens before the tail."""
        return self._start
