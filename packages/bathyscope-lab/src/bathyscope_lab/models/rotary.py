"""Rotary position embedding of the first entries of each head; the others carry no position."""

from __future__ import annotations

import torch
from torch import Tensor

Turn = tuple[Tensor, Tensor]
"""Cosines and sines, each [batch, tokens, pairs]."""


def rotary_turn(position_ids: Tensor, entries: int, theta: float, like: Tensor) -> Turn:
    """By how much each pair of entries is turned at each position.

    Args:
        position_ids: [batch, tokens].
        entries: how many entries of a head are turned, an even number.
        theta: base of the wavelengths.
        like: a tensor of the wanted dtype and device.
    """
    pair = torch.arange(0, entries, 2, dtype=torch.float32, device=like.device)
    frequency = 1.0 / theta ** (pair / max(entries, 1))
    angle_BTP = position_ids.to(like.device, torch.float32)[..., None] * frequency
    return angle_BTP.cos().to(like.dtype), angle_BTP.sin().to(like.dtype)


def turned(heads_BHTD: Tensor, turn: Turn) -> Tensor:
    """Queries or keys [batch, heads, tokens, head width] with their first entries turned, pair by pair.

    The two entries of a pair stand half of the turned entries apart, as in GPT-NeoX and Llama.
    """
    cos, sin = (part[:, None] for part in turn)
    pairs = cos.shape[-1]
    one, other, rest = heads_BHTD.split([pairs, pairs, heads_BHTD.shape[-1] - 2 * pairs], dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin, rest], dim=-1)
