"""Next-token distributions of some tokens, with each quantity computed once and only if a metric asks for it.

All of them are in float64: differences of nearly equal probabilities lose their digits in float32, and torch's softmax
in float64 takes a tenth of the product that precedes it. Log-probabilities are never formed as an array: with the
centred logits c = logits − max they are c − log Σ exp c, so that Σ p log q = Σ p·c_q − log Σ exp c_q is one pass.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

_SEGMENT = 64
"""Neighbouring tokens of the vocabulary whose largest logit is looked at first."""
_FIRST_LOOK = 64
"""How many of the most probable tokens are sorted before it is known whether they reach a share."""


@dataclass
class Distribution:
    """Next-token distributions of some tokens: ``logits`` [..., N, vocabulary], everything else on demand."""

    logits: Tensor
    _top_k: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _top_p: dict[float, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @cached_property
    def p(self) -> Tensor:
        """Probabilities in float64."""
        return self.logits.softmax(-1, dtype=torch.float64)

    @cached_property
    def largest(self) -> Tensor:
        """The largest logit, [..., N, 1]."""
        return self.logits.amax(-1, keepdim=True)

    @cached_property
    def centred(self) -> Tensor:
        """The logits less the largest of them, in float64."""
        return self.logits.double().sub_(self.largest)

    @cached_property
    def log_p1(self) -> Tensor:
        """The log-probability of the most probable token, −log Σ exp c, [..., N]."""
        # exp 0 = 1 is the largest summand, so that the largest probability is one over the sum
        return self.p1.log()

    @cached_property
    def p1(self) -> Tensor:
        """The probability of the most probable token, [..., N]."""
        return self.p.amax(-1)

    def log_p_of(self, ids: Tensor) -> Tensor:
        """Log-probabilities of some tokens, [..., N, …], by their ids [..., N, …]."""
        return (self.logits.gather(-1, ids).double() - self.largest) + self.log_p1[..., None]

    def mean_log_p(self, other: "Distribution") -> Tensor:
        """Σ p log q in nats, [..., N], with the other's probabilities p and this one's q."""
        return (other.p * self.centred).sum(-1) + self.log_p1

    @cached_property
    def neg_entropy(self) -> Tensor:
        """Σ p log p in nats, [..., N]."""
        return self.mean_log_p(self)

    @cached_property
    def top1(self) -> Tensor:
        """The most probable token, [..., N]."""
        return self.logits.argmax(-1)

    def top_k(self, k: int) -> Tensor:
        """The ``k`` most probable tokens, the likeliest first, [..., N, k]."""
        if k not in self._top_k:
            self._top_k[k] = largest_of(self.logits, min(k, self.logits.shape[-1]))
        return self._top_k[k]

    def top_p(self, share: float) -> tuple[Tensor, Tensor]:
        """The smallest set of most probable tokens whose probabilities reach ``share``.

        Returns:
            Ids [..., N, size], and 1 where they are in the set, else 0.
        """
        if share not in self._top_p:
            size = min(_FIRST_LOOK, self.p.shape[-1])
            values, indices = self.p.topk(size, dim=-1)
            while size < self.p.shape[-1] and bool((values.sum(-1) < share).any()):
                size = min(size * 4, self.p.shape[-1])
                values, indices = self.p.topk(size, dim=-1)
            self._top_p[share] = indices, (values.cumsum(-1) - values < share).double()
        return self._top_p[share]


def largest_of(logits: Tensor, k: int) -> Tensor:
    """Places of the ``k`` largest values along the last dimension, the largest first.

    On a CPU ``topk`` looks at one value at a time. The k largest values lie in the k segments with the largest maxima,
    and maxima of segments are vectorised; only those segments are then sorted.
    """
    size = logits.shape[-1]
    segments = size // _SEGMENT
    if logits.device.type != "cpu" or segments < 4 * k:
        return logits.topk(k, dim=-1).indices
    whole = logits[..., : segments * _SEGMENT].unflatten(-1, (segments, _SEGMENT))
    best = whole.amax(-1).topk(k, dim=-1).indices
    places = (best[..., None] * _SEGMENT + torch.arange(_SEGMENT)).flatten(-2)
    # the last few tokens fill no segment
    rest = torch.arange(segments * _SEGMENT, size).expand(*places.shape[:-1], -1)
    places = torch.cat([places, rest], -1)
    return places.gather(-1, logits.gather(-1, places).topk(k, dim=-1).indices)
