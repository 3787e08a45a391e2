"""The attention of MoEUT: few heads, each of which mixes its values and its outputs from experts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bathyscope_lab.models.attention import CausalAttention
from bathyscope_lab.models.config import SharedLayerConfig
from bathyscope_lab.models.experts import Pairs, Router


class SwitchHead(CausalAttention):
    """Attention with experts for values and outputs. Source: csordas2025 (MoEUT).

    Queries, keys and all scores of experts read the normed stream. Values read the stream as it is. Head h of a
    token takes Σ_e σ(s_e) x V_he as its value, and writes Σ_e σ(s′_e) z O_he where it attended to z.
    """

    def make_values(self, config: SharedLayerConfig) -> None:
        """Makes the weights of values and outputs, [heads · experts, from, to]."""
        width, experts, taken = config.hidden_size, config.attention_experts, config.attention_experts_per_tok
        self.n_experts = experts
        self.value_router = Router(width, experts, taken, self.heads)
        self.output_router = Router(width, experts, taken, self.heads)
        self.value_experts = nn.Parameter(torch.empty(self.heads * experts, width, self.head_dim))
        self.output_experts = nn.Parameter(torch.empty(self.heads * experts, self.head_dim, width))

    def values(self, resid_BTD: Tensor, normed_BTD: Tensor) -> Tensor:
        """Values [batch, tokens, heads, head width] of the stream as it is."""
        chosen = self.value_router(normed_BTD)
        # one token's choices of all heads follow one another
        pairs = Pairs.of(self._numbered(chosen.experts).flatten(0, 1).flatten(1), len(self.value_experts))
        values = pairs.times(pairs.given(resid_BTD.flatten(0, 1)), self.value_experts)
        by_choice = pairs.returned(values).view(*chosen.gates.shape, self.head_dim)
        return (by_choice * chosen.gates[..., None]).sum(-2)

    def output(self, attended_BTHD: Tensor, normed_BTD: Tensor) -> Tensor:
        """What the heads write into the stream, [batch, tokens, width]."""
        chosen = self.output_router(normed_BTD)
        heads = attended_BTHD.reshape(-1, self.head_dim)
        pairs = Pairs.of(self._numbered(chosen.experts).flatten(0, 2), len(self.output_experts))
        gated = pairs.given(heads) * pairs.sorted(chosen.gates.flatten(0, 2))
        written = pairs.returned(pairs.times(gated, self.output_experts))
        return written.view(*normed_BTD.shape[:2], -1, normed_BTD.shape[-1]).sum(2)

    def _numbered(self, experts_BTHK: Tensor) -> Tensor:
        """Experts of all heads counted through."""
        first = torch.arange(self.heads, device=experts_BTHK.device) * self.n_experts
        return experts_BTHK + first[:, None]
