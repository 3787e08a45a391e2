"""What models are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath


def model_names(models: Sequence[str]) -> list[str]:
    """Each model without folders or owner; where two different ones would then be called the same, with them."""
    short = [PurePath(model).name or model for model in models]
    called = {(name, model) for name, model in zip(short, models)}
    shared = [name for name, _ in called]
    return [model if shared.count(name) > 1 else name for name, model in zip(short, models)]
