"""The library's cache under a schedule: one layer for every slot, so that a block that runs twice keeps both.

Blocks address the cache by their own index in the model. They are shown a view of it in which the layer at that
index is the one of the slot they run in.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from transformers import Cache

from bathyscope.errors import ModelError

_OWNERS: WeakKeyDictionary[Cache, SlotCache] = WeakKeyDictionary()


class SlotCache:
    """Lays caches out by slot.

    Args:
        order: the block of every slot.
        kinds: the block, or the position in the model's list, whose kind of cache layer (full, sliding window,
            recurrent state) every slot takes.
        n_blocks: L, the number of blocks of the model.
    """

    def __init__(self, order: Sequence[int], kinds: Sequence[int], n_blocks: int) -> None:
        self._order, self._kinds, self._n_blocks = tuple(order), tuple(kinds), n_blocks

    def lay_out(self, cache: Cache) -> bool:
        """Gives a new cache its layers; returns whether it was new.

        Raises:
            ModelError: the cache was filled, or laid out, under another order of blocks.
        """
        owner = _OWNERS.get(cache)
        if owner is self:
            return False
        if owner is not None or any(_filled(layer) for layer in cache.layers):
            raise ModelError(
                "This cache was filled under another order of the blocks, so that its layers belong to other slots; "
                "begin with a new cache inside scheduled()."
            )
        cache.layers = self._layers(cache)
        _OWNERS[cache] = self
        return True

    def view(self, cache: Cache, slot: int) -> Cache:
        """The cache as the block in ``slot`` must see it; its layers are the cache's own."""
        block = self._order[slot]
        shown = copy.copy(cache)
        shown.layers = [cache.layers[self._place(index)] for index in range(self._n_blocks)]
        shown.layers[block] = cache.layers[slot]
        return shown

    def _place(self, block: int) -> int:
        """The slot that stands for a block other than the running one; the first, where there is none or it leads.

        Index 0 is what blocks ask for the length of the past, and the first slot always knows it.
        """
        return self._order.index(block) if block and block in self._order else 0

    def _layers(self, cache: Cache) -> list[Any]:
        if cache.layer_class_to_replicate is not None:
            return [cache.layer_class_to_replicate() for _ in self._order]
        given = cache.layers
        layers = [copy.deepcopy(given[index]) for index in self._kinds]
        # the library looks for the first layer of a kind when it makes that kind's mask, also if no block wants it
        for index in range(self._n_blocks):
            if all(type(layer) is not type(given[index]) for layer in layers):
                layers.append(copy.deepcopy(given[index]))
        return layers + list(given[self._n_blocks :])


def _filled(layer: Any) -> bool:
    states = getattr(layer, "has_previous_state", None) or {}
    length = layer.get_seq_length() if hasattr(layer, "get_seq_length") else 0
    return bool(length) or any(states.values())
