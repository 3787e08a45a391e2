"""Keeping small gradients inside the range of a narrow number format."""

from __future__ import annotations

import torch

# gradients of probabilities are far below 1, and float16 has no normal numbers below 6e-5
_FLOAT16 = 1024.0


def score_scale(dtype: torch.dtype) -> float:
    """What a score is multiplied by before its backward pass, and gradients divided by after: a power of two."""
    return _FLOAT16 if dtype == torch.float16 else 1.0
