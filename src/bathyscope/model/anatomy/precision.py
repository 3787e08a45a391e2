"""The precision of sums and norms: float32 at least, and float64 for a model that computes in it."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(values: Tensor) -> Tensor:
    """Return half precision as float32; float32 and float64 as they are."""
    return values.to(wide_dtype(values.dtype))


def wide_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """Return float64 for float64, else float32, which also serves 8 bits and weights of no dtype (None)."""
    return torch.float64 if dtype == torch.float64 else torch.float32
