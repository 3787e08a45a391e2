"""Token statistics per prompt: means in float64 over real tokens, never over pads."""

from collections.abc import Sequence
from typing import Final, TypeVar

import torch
from torch import Tensor

from bathyscope.wavefront.batch import Batch, within

Place = TypeVar("Place")


def mean_over_tokens(values_BT: Tensor, batch: Batch, first: int = 0) -> Tensor:
    """Mean over each prompt's tokens ``first …``, [..., batch] float64; NaN where a prompt has none."""
    keep = within(batch.tokens, first, batch.lengths, batch.ids_BT.device)
    # Filled before the sum: pads may hold anything, and 0 · NaN would still be NaN.
    total = values_BT.double().masked_fill(~keep, 0.0).sum(-1)
    return total / keep.sum(-1)


def max_over_tokens(values_BT: Tensor, batch: Batch) -> Tensor:
    """Largest value among each prompt's tokens, [..., batch] float64."""
    return values_BT.double().masked_fill(~batch.valid_BT, -torch.inf).amax(-1)


LEFT_OUT: Final = float("-inf")
"""Stands for a token that has no value; NaN is a value that went wrong."""


def reduce_tokens(values_RN: Tensor) -> Tensor:
    """Mean, 95th percentile (linear) and max over the last axis, [3, rows] float64.

    Tokens that are ``LEFT_OUT`` do not count; NaN where none is left.
    """
    if values_RN.shape[-1] == 0:
        return values_RN.new_full((3, *values_RN.shape[:-1]), torch.nan, dtype=torch.float64)
    values = values_RN.double()
    missing = values == LEFT_OUT
    first_R = missing.sum(-1)
    count_R = values.shape[-1] - first_R
    # a row that lacks nothing is averaged by torch's own mean, to the same bit as if there were no others
    mean_R = torch.where(first_R > 0, values.masked_fill(missing, 0.0).sum(-1) / count_R, values.mean(-1))
    reduced = torch.stack([mean_R, quantile(values, 0.95, first_R), values.amax(-1)])
    return reduced.masked_fill(count_R == 0, torch.nan)


def quantile(values_RN: Tensor, q: float, first_R: Tensor | int = 0) -> Tensor:
    """Linear quantile over the last axis, of any length (torch.quantile takes at most 16 million values).

    Args:
        first_R: how many of the smallest do not count.
    """
    # What is left out is −∞ and sorts first, so that the quantile is one of the entries behind it.
    ordered = values_RN.sort(-1).values
    first = torch.as_tensor(first_R, device=values_RN.device).expand(values_RN.shape[:-1])[..., None]
    last = ordered.shape[-1] - 1
    share = (q * (last - first).double()).clamp_min(0)  # from the first that counts
    low = (first + share.long()).clamp_max(last)
    high = (low + 1).clamp_max(last)
    ends = ordered.gather(-1, low), ordered.gather(-1, high)
    return torch.lerp(*ends, (share - share.long()).to(ordered.dtype))[..., 0]


def over_prompts(values_RBT: Tensor, batch: Batch) -> Sequence[Tensor]:
    """Values reduced over each prompt's own tokens: of every prompt [reduction, rows]."""
    if not batch.is_ragged:
        return reduce_tokens(values_RBT).unbind(-1)
    return [reduce_tokens(values_RBT[:, prompt, :length]) for prompt, length in enumerate(batch.lengths)]


def pooled(several: Sequence[tuple[list[Place], Tensor]]) -> tuple[list[Place], Tensor]:
    """Values [rows, tokens] that fill the same places from several starting tokens on, joined along the tokens."""
    first = several[0][0]
    if all(places == first for places, _ in several):
        return first, torch.cat([values_RN for _, values_RN in several], dim=-1)
    by_place: dict[Place, list[Tensor]] = {}
    for places, values_RN in several:
        for place, values_N in zip(places, values_RN):
            by_place.setdefault(place, []).append(values_N)
    return list(by_place), torch.stack([torch.cat(pieces) for pieces in by_place.values()])
