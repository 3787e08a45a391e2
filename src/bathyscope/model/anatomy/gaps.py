"""How far two results of a check are apart, and what counts as equal."""

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.plain import home_of, vocabulary
from bathyscope.model.anatomy.precision import widened

_TOKENS = 12
# float64 is allowed more than its rounding: softmax and RMSNorm run in float32 in most families, whatever the dtype
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


def tolerance(dtype: torch.dtype) -> float:
    """Return the relative gap that counts as equal in this dtype."""
    return _TOLERANCE.get(dtype, 6e-2)


def gap(value: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest expected value."""
    apart = (widened(value) - widened(expected)).abs().max()
    return float(apart / widened(expected).abs().max().clamp_min(1e-12))


def token_gap(value: Tensor, expected: Tensor) -> float:
    """Return the largest gap of any token: one token's massive activation must not hide another's."""
    return float(token_gaps(value, expected).max())


def token_gaps(value: Tensor, expected: Tensor) -> Tensor:
    """Return ‖value − expected‖ / ‖expected‖ of every token."""
    apart = torch.linalg.vector_norm(widened(value) - widened(expected), dim=-1)
    return apart / torch.linalg.vector_norm(widened(expected), dim=-1).clamp_min(1e-12)


def random_ids(model: nn.Module, tokens: int = _TOKENS) -> Tensor:
    """Return two sequences of random token ids, the same in every check."""
    generator = torch.Generator().manual_seed(20250519)
    entries = vocabulary(model)
    # the first ids are mostly special tokens, and the embedding of the one for padding is often zero
    return torch.randint(max(0, min(3, entries - 1)), entries, (2, tokens), generator=generator).to(home_of(model))
