"""Architectures that must be refused, each with its reason."""

from __future__ import annotations

from support.zoo.entry import Entry, config
from support.zoo.relatives import NO_SHAPE
from support.zoo.streams import REFORMER, XLNET

HASHED = {**REFORMER, "attn_layers": ["local", "lsh"] * 2, "lsh_attn_chunk_length": 4}

ENTRIES = (
    Entry(
        "xlnet_both_ways",
        "xlnet",
        config("xlnet", NO_SHAPE, XLNET, attn_type="bi"),
        "every token attends to all others",
        refused=True,
    ),
    Entry(
        "reformer_hashed",
        "reformer",
        config("reformer", HASHED),
        "later tokens move earlier ones into other chunks",
        refused=True,
    ),
)
