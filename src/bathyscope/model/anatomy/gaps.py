"""How far two results of a check are apart, and what counts as equal."""

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.plain import home_of, vocabulary

_TOKENS = 12
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


def tolerance(dtype: torch.dtype) -> float:
    """The relative gap that counts as equal in this dtype."""
    return _TOLERANCE.get(dtype, 6e-2)


def gap(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max().clamp_min(1e-12))


def token_gap(found: Tensor, wanted: Tensor) -> float:
    """The largest ‖found − wanted‖ / ‖wanted‖ of any token: one token's massive activation must not hide another's."""
    return float(token_gaps(found, wanted).max())


def token_gaps(found: Tensor, wanted: Tensor) -> Tensor:
    """‖found − wanted‖ / ‖wanted‖ of every token."""
    apart = torch.linalg.vector_norm(found.float() - wanted.float(), dim=-1)
    return apart / torch.linalg.vector_norm(wanted.float(), dim=-1).clamp_min(1e-12)


def random_ids(model: nn.Module, tokens: int = _TOKENS) -> Tensor:
    """Two sequences of random token ids, the same in every check."""
    generator = torch.Generator().manual_seed(20250519)
    entries = vocabulary(model)
    return torch.randint(max(0, min(3, entries - 1)), entries, (2, tokens), generator=generator).to(home_of(model))
