"""The laboratory's models whose group of blocks is repeated."""

from __future__ import annotations

from typing import Any

import bathyscope_lab.models  # noqa: F401 — makes their types known to the library
from support.zoo.entry import Entry, config

REPEATED: dict[str, Any] = {"num_hidden_layers": ..., "group_size": 2, "repeats": 3}
MOEUT: dict[str, Any] = {
    "intermediate_size": ...,
    "num_attention_heads": 2,
    "head_dim": 16,
    "attention_experts": 4,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
}

ENTRIES = (
    Entry("universal", "shared_layers", config("bathyscope_universal", REPEATED), "two blocks, run three times"),
    Entry("moeut", "shared_layers", config("bathyscope_moeut", REPEATED, MOEUT), "experts in attention and MLP"),
)
