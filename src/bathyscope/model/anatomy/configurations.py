"""Entries of a configuration that may differ from block to block, and those that limit the length of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LENGTHS: Final = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx")
"""What families call the longest prompt that they take."""


def block_configurations(config: Any) -> list[Any]:
    """Return a configuration for each block where blocks have entries of their own, else the whole one alone.

    Transformers refuses to read such an entry from the whole configuration, whose value is not that of every block.
    """
    return list(config.per_layer_config) if getattr(config, "is_heterogeneous", False) else [config]


def block_values(config: Any, name: str) -> list[Any]:
    """Return the values that an entry has in some block, without those that are missing, None or 0."""
    values = (getattr(block, name, None) for block in block_configurations(config))
    return [value for value in values if value]


def length_fault(config: Mapping[str, Any]) -> str | None:
    """Return a clause about a limit by which no prompt would be short enough; None where it has none such."""
    for name in LENGTHS:
        limit = config.get(name)
        if isinstance(limit, int | float) and not limit >= 1:
            return f"{name}: {limit}; a prompt has at least 1 token, so give the original's whole number of 1 or more"
    return None
