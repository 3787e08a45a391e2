"""Attention locality: how much of its attention a block gives to the tokens just before, per offset.

Mean of A[q, q−i] over heads and queries q ≥ i. A pair that a sliding window forbids counts with its weight, 0.
Source: lad2024, attention to the previous tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.errors import warn
from bathyscope.labels import Label
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, refusal
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Distinct, Range
from bathyscope.prompts.prompt import TokenizedPrompt

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from bathyscope.model.anatomy.attention import Attention
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.probe import BaselineView

_label = partial(Label, source="lad2024, attention to previous tokens")
_POOLED = "mean of A[q,q−i] over i = 1 … 5, q ≥ i"


@dataclass(frozen=True)
class AttentionLocalityOptions:
    """Options of attention locality.

    Args:
        offsets: how many tokens before the query the key stands (1 = the token just before).
    """

    offsets: Annotated[tuple[Annotated[int, Range(1)], ...], Distinct()] = (1, 2, 4, 8, 16)


DECLARATION: Final = Declaration(
    "attention_locality",
    "Attention weights by offset, from one plain forward.",
    AttentionLocalityOptions,
    {
        "weight": _label(
            "prompt block offset",
            "attention weight on the token i before the query",
            formula="mean of A[q,q−i] over q ≥ i",
        ),
        "mean_prev5": _label("prompt block", "attention weight on one of the five tokens before", formula=_POOLED),
        "total_prev5": _label(
            "prompt block", "attention weight on the five tokens before together", formula="5 · mean_prev5"
        ),
        "self_weight": _label("prompt block", "attention weight on the query's own token", formula="mean of A[q,q]"),
        "first_key": _label("prompt block", "attention weight on the first token", formula="mean of A[q,0] over q ≥ 1"),
        "head_prev1": _label(
            "prompt block head", "a head's attention weight on the token before", formula="mean of A[q,q−1]"
        ),
        "head_prev5": _label(
            "prompt block head", "a head's attention weight on one of the five tokens before", formula=_POOLED
        ),
    },
    order=180,
    synonyms=("attention", "attention_distance", "locality"),
    panels={
        "places": ("total_prev5", "self_weight", "first_key"),
        "offsets": ("weight",),
        "heads": ("head_prev5",),
    },
    question="how far back does attention look?",
    rows="the plain forward",
)


PREVIOUS: Final = 5
"""How many previous tokens are pooled."""
_SELF: Final = 0


class AttentionLocality(Measure[AttentionLocalityOptions], declared=DECLARATION):
    by_prompt = True
    looks_at_weights = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        from bathyscope.model.anatomy.attention import attention_heads

        return refusal(lambda: attention_heads(facts.anatomy))

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.model.anatomy.attention import attention_heads

        self._heads = attention_heads(facts.anatomy)
        lengths = [len(prompt) for prompt in prompts]
        beyond = [offset for offset in self.options.offsets if offset >= min(lengths)]
        if beyond:
            short = sum(length <= max(beyond) for length in lengths)
            warn(
                f"attention_locality: {short} of {len(lengths)} prompts are too short to have a token "
                f"{' or '.join(map(str, beyond))} before another (the shortest has {min(lengths)} tokens, the longest "
                f"{max(lengths)}); their weights at such offsets are missing."
            )

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # attention once more, in the open: little in short prompts, as much as all the rest at some 2000 tokens
        return 0.2 + tokens / 2000

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return AttentionLocalityProbe(self.options.offsets, facts.n_blocks, self._heads, batch)


class AttentionLocalityProbe(MeasureProbe):
    """Adds up weights by offset, block after block; weights themselves are not kept."""

    def __init__(self, offsets: Sequence[int], n_blocks: int, heads: Sequence[int], batch: Batch) -> None:
        import torch

        super().__init__(wants_weights=True)
        self._heads = tuple(heads)
        self._offsets = tuple(offsets)
        self._batch = batch
        self._summed = sorted({_SELF, *range(1, PREVIOUS + 1), *offsets})
        # NaN stays where a block, or a head of a block with fewer of them, has no weights
        shape = (batch.size, n_blocks, max(heads))
        device = batch.ids_BT.device
        self._by_offset = torch.full((*shape, len(self._summed)), torch.nan, dtype=torch.float64, device=device)
        self._first_key = torch.full(shape, torch.nan, dtype=torch.float64, device=device)

    def baseline(self, view: BaselineView) -> None:
        from bathyscope.model.anatomy.attention import all_heads

        if view.weights is None:
            return
        sums, first_sums = summed_weights(view.weights, self._batch.valid_BT, self._summed)
        by_offset = all_heads(sums, self._heads[view.block])
        first_key = all_heads(first_sums, self._heads[view.block])
        heads = by_offset.shape[1]
        self._by_offset[:, view.block, :heads] = by_offset
        self._first_key[:, view.block, :heads] = first_key

    def result(self) -> xr.Dataset:
        import numpy as np
        import torch

        lengths = torch.tensor(self._batch.lengths, dtype=torch.float64)
        pairs_BO = (lengths[:, None] - torch.tensor(self._summed)).clamp_min(0)
        previous = [self._summed.index(i) for i in range(1, PREVIOUS + 1)]
        by_offset = self._by_offset.cpu()
        # Every pair of tokens counts the same: five offsets' sums over all their pairs, not a mean of five means.
        pooled_BLH = by_offset[..., previous].sum(-1) / pairs_BO[:, None, None, previous].sum(-1)
        mean_BLHO = by_offset / pairs_BO[:, None, None]
        weight_BLO = mean_BLHO.nanmean(2)[..., [self._summed.index(i) for i in self._offsets]]
        first_key_BLH = self._first_key.cpu() / (lengths - 1)[:, None, None]
        mean_prev5 = pooled_BLH.nanmean(2)
        data = {
            "weight": weight_BLO,
            "mean_prev5": mean_prev5,
            "total_prev5": PREVIOUS * mean_prev5,
            "self_weight": mean_BLHO[..., _SELF].nanmean(2),
            "first_key": first_key_BLH.nanmean(2),
            "head_prev1": mean_BLHO[..., previous[0]],
            "head_prev5": pooled_BLH,
        }
        coords = {
            "block": np.arange(weight_BLO.shape[1]),
            "offset": list(self._offsets),
            "head": np.arange(pooled_BLH.shape[2]),
        }
        return DECLARATION.dataset(data, coords)


def summed_weights(attention: Attention, valid_BT: Tensor, offsets: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Sums of weights over each prompt's queries.

    Returns:
        Σ A[q, q−i] for every offset i, [batch, heads, offsets], and Σ A[q, 0] over q ≥ 1, [batch, heads]; float64.
    """
    import torch

    rows, heads, _, _ = attention.size
    by_offset = torch.zeros(rows, heads, len(offsets), dtype=torch.float64, device=valid_BT.device)
    first_key = by_offset.new_zeros(rows, heads)
    for first, weights_BHQK in attention.chunks():
        valid = valid_BT[:, first : first + weights_BHQK.shape[2]].double()
        weights_BHQK = weights_BHQK.to(valid.device)
        for column, offset in enumerate(offsets):
            # The key q − i of every query q is a diagonal; queries of this chunk begin at ``first``.
            start = max(0, offset - first)  # the first query of the chunk that has such a key
            diagonal_BHQ = weights_BHQK.diagonal(first - offset, dim1=2, dim2=3)
            by_offset[:, :, column] += torch.einsum("bhq,bq->bh", diagonal_BHQ.double(), valid[:, start:])
        # Query 0 has no other key, and would count its weight of 1 on itself.
        later = slice(1 if first == 0 else 0, None)
        first_key += torch.einsum("bhq,bq->bh", weights_BHQK[:, :, later, 0].double(), valid[:, later])
    return by_offset, first_key
