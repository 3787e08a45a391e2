"""What a pair of next-token distributions is compared by. KL and loss in nats, entropy and JSD in bits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bathyscope.wavefront.distribution import Distribution, log_of

_LN2 = math.log(2.0)
_ROUNDING = 2e-13
"""Of entropies of up to 20 bits, summed over up to half a million tokens of a vocabulary."""
TOP = 5
"""Tokens that ``top_ids`` and ``top_probabilities`` name; fewer where the vocabulary is smaller."""
SEVERAL_VALUES = ("top_ids", "top_probabilities")
"""Metrics with ``TOP`` values for each token."""


@dataclass
class Pair:
    """A reference and a row's distribution of the same tokens; ``targets`` are next ids, −1 where none.

    The reference is [N, vocabulary], the row [N, vocabulary], or several rows at once [rows, N, vocabulary].
    """

    ref: Distribution
    row: Distribution
    targets_N: Tensor | None
    k: int = 5
    top_p: float = 0.9

    @cached_property
    def kl(self) -> Tensor:
        """KL(row ‖ reference) in nats, [N]."""
        return self.row.neg_entropy - self.ref.mean_log_p(self.row)

    @cached_property
    def kl_top(self) -> Tensor:
        """What the reference's top-p set adds to it, [N]."""
        ids, inside = self.ref.top_p(self.top_p)
        if ids is None:
            p_inside = self.row.p * inside
            log_ratio = (p_inside * self.row.centred).sum(-1) - (p_inside * self.ref.centred).sum(-1)
            return log_ratio + p_inside.sum(-1) * (self.row.log_p1 - self.ref.log_p1)
        ref_log_p = self.ref.log_p_of(ids)
        ids = ids.expand(*self.row.logits.shape[:-1], -1)
        terms = (self.row.log_p_of(ids) - ref_log_p) * self.row.p.gather(-1, ids)
        return (terms * inside).sum(-1)


def kl_from_reference(pair: Pair) -> Tensor:
    """KL(reference ‖ row) in nats."""
    return (pair.ref.neg_entropy - pair.row.mean_log_p(pair.ref)).clamp_min(0)


def kl_to_reference(pair: Pair) -> Tensor:
    """KL(row ‖ reference) in nats."""
    return pair.kl.clamp_min(0)


def jsd(pair: Pair) -> Tensor:
    """Jensen–Shannon divergence in bits (0 … 1)."""
    twice_mean = pair.row.p + pair.ref.floored_p
    neg_entropy = 0.5 * log_of(twice_mean).mul_(twice_mean).sum(-1) - _LN2
    bits = ((0.5 * (pair.row.neg_entropy + pair.ref.neg_entropy) - neg_entropy) / _LN2).clamp(0, 1)
    # the three entropies are summed in different ways, so that equal distributions differ by their rounding
    return bits.masked_fill(bits < _ROUNDING, 0)


def l2(pair: Pair) -> Tensor:
    """‖y − ȳ‖₂ of the probabilities."""
    return torch.linalg.vector_norm(pair.row.p - pair.ref.p, dim=-1)


def entropy(pair: Pair) -> Tensor:
    """Entropy of the row in bits."""
    return -pair.row.neg_entropy / _LN2


def top1_agreement(pair: Pair) -> Tensor:
    """1 where both have the same most probable token."""
    return (pair.row.top1 == pair.ref.top1).double()


def loss(pair: Pair) -> Tensor:
    """Cross-entropy of the next token in nats, NaN after the last token."""
    if pair.targets_N is None:
        raise ValueError("loss needs the next tokens")
    targets = pair.targets_N.clamp_min(0).expand(pair.row.logits.shape[:-1])
    return -pair.row.log_p_of(targets[..., None])[..., 0].masked_fill(pair.targets_N < 0, float("nan"))


def overlap(pair: Pair) -> Tensor:
    """|top_k(row) ∩ top_k(reference)| / k."""
    ref, row = pair.ref.top_k(pair.k), pair.row.top_k(pair.k)
    return (row[..., :, None] == ref[..., None, :]).any(-1).double().mean(-1)


def rank(pair: Pair) -> Tensor:
    """1-based rank in the row of the reference's most probable token."""
    top = pair.ref.top1.expand(pair.row.logits.shape[:-1])
    value = pair.row.logits.gather(-1, top[..., None])
    return 1 + pair.row.count_above(value).double()


def final_margin(pair: Pair) -> Tensor:
    """How far the reference's most probable token is ahead of the next one, in probability."""
    largest = pair.ref.p.gather(-1, pair.ref.top_k(2))
    margin = largest[..., 0] - (largest[..., 1] if largest.shape[-1] > 1 else 0)
    return margin.expand(pair.row.logits.shape[:-1])


def top1_id(pair: Pair) -> Tensor:
    """The row's most probable token."""
    return pair.row.top1.double()


def top1_probability(pair: Pair) -> Tensor:
    """Its probability."""
    return pair.row.p1


def top_ids(pair: Pair) -> Tensor:
    """The row's ``TOP`` most probable tokens, the likeliest first, [..., N, TOP]."""
    return pair.row.top_k(TOP).double()


def top_probabilities(pair: Pair) -> Tensor:
    """Their probabilities, [..., N, TOP]."""
    return pair.row.p.gather(-1, pair.row.top_k(TOP))


def kl_top_p(pair: Pair) -> Tensor:
    """The share of KL(row ‖ reference) that comes from the reference's top-p set, in nats."""
    return pair.kl_top


def kl_tail(pair: Pair) -> Tensor:
    """The rest of KL(row ‖ reference), from outside the top-p set, in nats."""
    return pair.kl - pair.kl_top


METRICS: dict[str, Callable[[Pair], Tensor]] = {
    metric.__name__: metric
    for metric in (
        *(kl_from_reference, kl_to_reference, jsd, l2, entropy, top1_agreement, top1_id, top1_probability),
        *(loss, overlap, rank, kl_top_p, kl_tail, top_ids, top_probabilities, final_margin),
    )
}
