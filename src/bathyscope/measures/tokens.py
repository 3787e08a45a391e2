"""Token statistics per prompt: means in float64 over real tokens, never over pads."""

from __future__ import annotations

import torch
from torch import Tensor

from bathyscope.wavefront.batch import Batch


def mean_over_tokens(values_BT: Tensor, batch: Batch, first: int = 0) -> Tensor:
    """Mean over each prompt's tokens ``first …``, [..., batch] float64; NaN where a prompt has none."""
    keep = batch.valid_BT.clone()
    keep[:, :first] = False
    total = values_BT.double().masked_fill(~keep, 0.0).sum(-1)
    return total / keep.sum(-1)


def max_over_tokens(values_BT: Tensor, batch: Batch) -> Tensor:
    """Largest value among each prompt's tokens, [..., batch] float64."""
    return values_BT.double().masked_fill(~batch.valid_BT, -torch.inf).amax(-1)


def reduce_tokens(values_RN: Tensor) -> Tensor:
    """Mean, 95th percentile (linear) and max over the last axis, [3, rows] float64; NaN where it is empty."""
    if values_RN.shape[-1] == 0:
        return values_RN.new_full((3, *values_RN.shape[:-1]), torch.nan, dtype=torch.float64)
    values = values_RN.double()
    return torch.stack([values.mean(-1), quantile(values, 0.95), values.amax(-1)])


def quantile(values_RN: Tensor, q: float) -> Tensor:
    """Linear quantile over the last axis, of any length (torch.quantile takes at most 16 million values)."""
    ordered = values_RN.sort(-1).values
    position = q * (ordered.shape[-1] - 1)
    low = int(position)
    high = min(low + 1, ordered.shape[-1] - 1)
    return torch.lerp(ordered[..., low], ordered[..., high], position - low)
