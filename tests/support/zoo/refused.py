"""Architectures that must be refused, each with its reason."""

from __future__ import annotations

from support.zoo.entry import Entry, config
from support.zoo.relatives import NO_SHAPE

SHAPE = {"vocab_size": 120, "d_model": 64, "n_layer": 3, "n_head": 4, "d_inner": 96}

ENTRIES = (
    Entry("xlnet", "xlnet", config("xlnet", NO_SHAPE, SHAPE), "every token attends to all others", refused=True),
)
