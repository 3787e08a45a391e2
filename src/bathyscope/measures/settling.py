"""When a token's prediction is made: settle depth and prediction depth, from its logit lens at all boundaries.

Source: deep-thinking ratio (settle depth); Baldock et al. 2021 (prediction depth).
"""

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

SETTLED: Final = 0.5
"""Bits of Jensen–Shannon divergence from the final distribution up to which a token counts as settled."""
NEAR: Final = 0.1
"""Lead in probability of the most probable final token over the next one, below which the two are nearly tied."""
_DEEP_PERCENT: Final = 85


def settle_depth(jsd_BN: Tensor) -> Tensor:
    """min{b : min over j ≤ b of JSD₂(p_j, p_L) ≤ 0.5}, [N] float64: the first boundary that comes this close.

    Args:
        jsd_BN: bits, at boundaries 0 … L of N tokens.

    Returns:
        0 … L; NaN where the divergence is so small nowhere (the final distribution is not finite).
    """
    # A running minimum first falls to the threshold where the divergence itself first does.
    close = jsd_BN <= SETTLED
    depth = _first(close)
    return depth.masked_fill(~close.any(0), torch.nan)


def prediction_depth(agreement_BN: Tensor) -> Tensor:
    """Return the first boundary after which the top-1 token no longer changes, [N] float64, 0 … L.

    Args:
        agreement_BN: 1 where the top-1 token is the final one, else 0, at boundaries 0 … L of N tokens; at L
            it is so by definition, whatever a lens with another norm says there.
    """
    n_blocks = agreement_BN.shape[0] - 1
    # Read from the end: the first boundary that disagrees, or the row put behind h_0 where none does.
    differs_from_end = (agreement_BN[:-1] == 0).flip(0)
    beyond = torch.full_like(differs_from_end[:1], True)
    return n_blocks - _first(torch.cat([differs_from_end, beyond]))


def at_boundaries(place_N: Tensor, boundaries: Sequence[int]) -> Tensor:
    """Return depths as boundaries, from their places among those that were read; NaN stays NaN.

    Where not all were read, a depth is the first one read at which a token has settled: it may have before.
    """
    if tuple(boundaries) == tuple(range(len(boundaries))):
        return place_N
    address = torch.tensor(boundaries, dtype=place_N.dtype, device=place_N.device)
    return address[place_N.nan_to_num().long()].masked_fill(place_N.isnan(), torch.nan)


def at_boundary(place: float, boundaries: Sequence[int]) -> float:
    """Return a place among the boundaries that were read, or one between two of them, as a depth; NaN stays NaN."""
    if math.isnan(place) or tuple(boundaries) == tuple(range(len(boundaries))):
        return place
    lower = min(math.floor(place), len(boundaries) - 2)
    return boundaries[lower] + (place - lower) * (boundaries[lower + 1] - boundaries[lower])


def is_kept(depth_N: Tensor, n_blocks: int) -> Tensor:
    """1 where a token has its final top-1 token at a boundary and keeps it, else 0, [L + 1, N] float64.

    Args:
        depth_N: prediction depths of N tokens.
    """
    boundaries = torch.arange(n_blocks + 1, device=depth_N.device)
    return (depth_N <= boundaries[:, None]).double()


def is_near_tie(agreement_BN: Tensor, final_margin_BN: Tensor) -> Tensor:
    """1 where the top-1 token is not the final one, and that one is nearly tied with the next, else 0, [B, N] float64.

    Args:
        agreement_BN: 1 where the top-1 token is the final one, else 0.
        final_margin_BN: what the final distribution's most probable token is ahead of the next.
    """
    return ((agreement_BN == 0) & (final_margin_BN < NEAR)).double()


def is_deep(settle_N: Tensor, n_blocks: int) -> Tensor:
    """1 where a token settles at or after boundary ⌈0.85·L⌉, else 0; NaN where it has no settle depth."""
    # in whole numbers: 0.85 L in floating point may lie just above a whole number
    boundary = -(-_DEEP_PERCENT * n_blocks // 100)
    return (settle_N >= boundary).double().masked_fill(settle_N.isnan(), torch.nan)


def _first(met_BN: Tensor) -> Tensor:
    """Index of the first true entry of each column."""
    return met_BN.int().argmax(0).double()
