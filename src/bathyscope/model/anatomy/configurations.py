"""Entries of a configuration that may differ from block to block."""

from __future__ import annotations

from typing import Any


def block_configurations(config: Any) -> list[Any]:
    """Return a configuration for each block where blocks have entries of their own, else the whole one alone.

    Transformers refuses to read such an entry from the whole configuration, whose value is not that of every block.
    """
    return list(config.per_layer_config) if getattr(config, "is_heterogeneous", False) else [config]


def block_values(config: Any, name: str) -> list[Any]:
    """Return the values that an entry has in some block, without those that are missing, None or 0."""
    values = (getattr(block, name, None) for block in block_configurations(config))
    return [value for value in values if value]
