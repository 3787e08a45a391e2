"""Numbers that went wrong: a run on them is refused, and never averaged over what is left."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from bathyscope.errors import ModelError


def require_finite(what: str, values: Iterable[Tensor], quantity: str = "predictions") -> None:
    """Refuse what overflowed in the model's dtype.

    Args:
        what: the beginning of the sentence.
        quantity: what the values are, as the message names them.

    Raises:
        ModelError: a value is NaN or infinite.
    """
    if not all(bool(torch.isfinite(tensor).all()) for tensor in values):
        raise overflow(what, quantity)


def overflow(what: str, quantity: str = "predictions") -> ModelError:
    """The refusal itself."""
    return ModelError(
        f"{what} gives NaN or Inf {quantity} on this input; load the model with a wider dtype (dtype='float32')."
    )
