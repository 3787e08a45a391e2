"""The feed-forward part of MoEUT: a few of many small two-layer networks for each token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bathyscope_lab.models.experts import Pairs, Router


class Experts(nn.Module):
    """Two-layer networks without biases, V relu(K x).

    Args:
        experts: how many there are.
        width: of the stream.
        size: neurons of each.
    """

    def __init__(self, experts: int, width: int, size: int) -> None:
        super().__init__()
        self.up_proj = nn.Parameter(torch.empty(experts, width, size))
        self.down_proj = nn.Parameter(torch.empty(experts, size, width))

    def forward(self, tokens_TD: Tensor, experts_TK: Tensor, gates_TK: Tensor) -> Tensor:
        """Each token's gated sum over the experts it takes, [T, width]."""
        pairs = Pairs.of(experts_TK, len(self.up_proj))
        neurons = pairs.times(pairs.given(tokens_TD), self.up_proj).relu()
        # a gate commutes with the second matrix, and neurons are narrower than the stream
        written = pairs.times(neurons * pairs.sorted(gates_TK), self.down_proj)
        return pairs.returned(written).sum(1)


class ExpertFeedForward(nn.Module):
    """Σ_e σ(w_e · normed) V_e relu(K_e x) over the experts e with the highest scores. Source: csordas2025 (MoEUT).

    Args:
        config: of the model (``MoeutConfig``).
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.router = Router(config.hidden_size, config.num_experts, config.num_experts_per_tok)
        self.experts = Experts(config.num_experts, config.hidden_size, config.moe_intermediate_size)

    def forward(self, resid_BTD: Tensor, normed_BTD: Tensor) -> Tensor:
        """What is added to the stream: scores read the normed stream, experts the stream as it is."""
        chosen = self.router(normed_BTD)
        tokens = (part.flatten(0, 1) for part in (resid_BTD, chosen.experts, chosen.gates))
        added: Tensor = self.experts(*tokens)
        return added.view_as(resid_BTD)
