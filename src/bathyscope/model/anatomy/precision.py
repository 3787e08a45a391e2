"""The precision of sums and norms: float32 at least, and float64 for a model that computes in it."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(values: Tensor) -> Tensor:
    """Return half precision as float32; float32 and float64 as they are."""
    return values.to(wide_dtype(values.dtype))


def wide_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """Return float64 for float64, else float32; None, as of quantised weights, counts as float32."""
    return torch.float32 if dtype is None else torch.promote_types(dtype, torch.float32)
