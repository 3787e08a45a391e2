"""Experts: which of them a token takes, and their matrices applied to the tokens that took them.

Shapes: T tokens, E experts, K of them taken by each token, P = T·K pairs of a token and an expert it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import grouped_mm, linear


class Selection(NamedTuple):
    """What a router chose for each token.

    Args:
        experts, gates: the taken experts and the sigmoid of their scores, [..., K].
        scores: of all experts, before the sigmoid, [..., E].
    """

    experts: Tensor
    gates: Tensor
    scores: Tensor


class Router(nn.Module):
    """Scores experts by one direction each; a token takes those with the highest, gated by the sigmoid of the score.

    Gates are not renormalised: how much a token takes from one expert does not depend on the others.

    Args:
        width: of the stream.
        experts: E of every choice.
        taken: K of every choice.
        choices: choices that are made for each token apart, such as one for each head; None = one.
    """

    def __init__(self, width: int, experts: int, taken: int, choices: int | None = None) -> None:
        super().__init__()
        self.taken, self.shape = taken, (experts,) if choices is None else (choices, experts)
        self.weight = nn.Parameter(torch.empty(experts * (choices or 1), width))

    def forward(self, normed_TD: Tensor) -> Selection:
        """The selection for tokens [..., width], with the axis of choices before that of experts where there is one."""
        scores = linear(normed_TD, self.weight)
        # in a wide type, so that near scores keep their order
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).unflatten(-1, self.shape)
        top = scores.topk(self.taken, dim=-1)
        return Selection(top.indices, top.values.sigmoid().to(normed_TD.dtype), scores)


@dataclass(frozen=True)
class Pairs:
    """All pairs of a token and an expert it takes, in the order of the experts.

    Args:
        order: [P], the place of each pair in the order of the tokens.
        counts: [E], pairs of each expert.
        shape: (T, K).
    """

    order: Tensor
    counts: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, experts_TK: Tensor, n_experts: int) -> Pairs:
        """The pairs of a selection."""
        flat = experts_TK.flatten()
        counts = torch.bincount(flat, minlength=n_experts)
        return cls(flat.argsort(stable=True), counts, (experts_TK.shape[0], experts_TK.shape[1]))

    def given(self, tokens_TD: Tensor) -> Tensor:
        """Each pair's token, [P, width]."""
        every_PD = tokens_TD[:, None].expand(*self.shape, -1).flatten(0, 1)
        # an order without repetitions, so that the sum in the gradient has a fixed order on a GPU too
        return every_PD.index_select(0, self.order)

    def sorted(self, gates_TK: Tensor) -> Tensor:
        """Each pair's gate, [P, 1]."""
        return gates_TK.flatten().index_select(0, self.order)[:, None]

    def returned(self, pairs_PD: Tensor) -> Tensor:
        """Back in the order of the tokens, [T, K, width]."""
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(len(place), device=place.device)
        return pairs_PD.index_select(0, place).unflatten(0, self.shape)

    def times(self, pairs_PD: Tensor, weight_EDF: Tensor) -> Tensor:
        """Each pair through its expert's matrix, [P, width of the result]."""
        kind = pairs_PD.device.type
        if torch.is_autocast_enabled(kind):
            # the fused kernel takes no part in autocasting
            pairs_PD, weight_EDF = (x.to(torch.get_autocast_dtype(kind)) for x in (pairs_PD, weight_EDF))
        if _fused(pairs_PD, weight_EDF):
            return grouped_mm(pairs_PD, weight_EDF, offs=self.counts.cumsum(0).to(torch.int32))
        parts = pairs_PD.split(self.counts.tolist())
        return torch.cat([part @ matrix for part, matrix in zip(parts, weight_EDF) if len(part)])


def _fused(pairs_PD: Tensor, weight_EDF: Tensor) -> bool:
    """Whether torch's kernel for groups of rows takes these: bfloat16 on a GPU, in rows of 16 bytes."""
    aligned = all(size % 8 == 0 for size in weight_EDF.shape[1:])
    return pairs_PD.is_cuda and pairs_PD.dtype == torch.bfloat16 and aligned
