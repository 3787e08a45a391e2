"""Models whose result on a prompt depends on how long the other prompts of its batch are."""

from __future__ import annotations

from typing import Any

_LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")


def depends_on_padding(config: Any) -> bool:
    """Only prompts of one length may share a batch.

    Rotary tables that change with the length of a forward (longrope, dynamic NTK), and attention that picks its
    keys by rank (``index_topk``): equal ranks are resolved by where they stand among all padded tokens.

    Args:
        config: of the text model.
    """
    if getattr(config, "index_topk", None):
        return True
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    return any(kind.get("rope_type", kind.get("type")) in _LENGTH_DEPENDENT_ROPE for kind in kinds)
