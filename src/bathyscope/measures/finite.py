"""Numbers that went wrong: a run on them is refused, and never averaged over what is left."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from bathyscope.errors import ModelError


def require_finite(what: str, values: Iterable[Tensor], found: str = "predictions") -> None:
    """Refuses what overflowed in the model's dtype.

    Args:
        what: the beginning of the sentence.
        found: what is not finite.

    Raises:
        ModelError: a value is NaN or infinite.
    """
    if not all(bool(torch.isfinite(one).all()) for one in values):
        raise overflow(what, found)


def overflow(what: str, found: str = "predictions") -> ModelError:
    """The refusal itself."""
    return ModelError(
        f"{what} gives NaN or Inf {found} on this input; load the model with a wider dtype (dtype='float32')."
    )
