"""Next-token distributions of some tokens, with each quantity computed once and only if a metric asks for it.

All of them are in float64: differences of nearly equal probabilities lose their digits in float32, and torch's softmax
in float64 takes a tenth of the product that precedes it. Log-probabilities are never formed as an array: with the
centred logits c = logits − max they are c − log Σ exp c, so that Σ p log q = Σ p·c_q − log Σ exp c_q is one pass.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.arrays import FloatArray, IntArray

_FLOOR = 1e-300
_SEGMENT = 64
"""Neighbouring tokens of the vocabulary whose largest logit is looked at first."""
_FEWEST_SEGMENTS = 8
_NUMPYS_SPEED = 4
"""Threads with which torch takes logarithms as fast as numpy with one."""
_WORTHWHILE = 8
"""One of this many segments may be looked at one value at a time before a pass over all of them is faster."""
_FIRST_LOOK = 64
"""How many of the most probable tokens are sorted before it is known whether they reach a share."""


class TopSet(NamedTuple):
    """Some of the most probable tokens.

    Args:
        ids: [..., N, size]; None = the whole vocabulary, in its order.
        inside: 1 where they are in the set, else 0, [..., N, size].
    """

    ids: Tensor | None
    inside: Tensor


@dataclass
class Distribution:
    """Next-token distributions of some tokens: ``logits`` [..., N, vocabulary], everything else on demand."""

    logits: Tensor
    _top_k: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _top_p: dict[float, TopSet] = field(default_factory=dict, repr=False)

    @cached_property
    def p(self) -> Tensor:
        """Probabilities in float64."""
        # Not from the centred logits: what needs probabilities alone, as skip effects do, would pay for both.
        return self.logits.softmax(-1, dtype=torch.float64)

    @cached_property
    def floored_p(self) -> Tensor:
        """Probabilities, none of which is 0: where two of them underflow, their sum still has a logarithm."""
        return self.p + _FLOOR

    @cached_property
    def segment_maxima(self) -> Tensor | None:
        """The largest logit of each segment of the vocabulary, [..., N, segments], where that is of use."""
        return maxima_of_segments(self.logits)

    @cached_property
    def largest(self) -> Tensor:
        """The largest logit, [..., N, 1]."""
        maxima = self.logits if self.segment_maxima is None else self.segment_maxima
        return maxima.amax(-1, keepdim=True)

    @cached_property
    def centred(self) -> Tensor:
        """The logits less the largest of them, in float64."""
        # a copy even where the logits are in float64 already: they are read again
        return self.logits.to(torch.float64, copy=True).sub_(self.largest)

    @cached_property
    def log_p1(self) -> Tensor:
        """The log-probability of the most probable token, −log Σ exp c, [..., N]."""
        # exp 0 = 1 is the largest summand, so that the largest probability is one over the sum
        return self.p1.log()

    @cached_property
    def p1(self) -> Tensor:
        """The probability of the most probable token, [..., N]."""
        if self.segment_maxima is None:
            return self.p.amax(-1)
        return self.p.gather(-1, self.top1[..., None])[..., 0]

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
        return most_probable(self.logits, self.segment_maxima)

    def count_above(self, value: Tensor) -> Tensor:
        """How many logits exceed a value of each token's, [..., N] by [..., N, 1]."""
        maxima = self.segment_maxima
        if maxima is None:
            return (self.logits > value).sum(-1)
        segments = int((maxima > value).sum(-1).max())
        if segments > maxima.shape[-1] // _WORTHWHILE:
            return (self.logits > value).sum(-1)
        best = maxima.topk(segments, dim=-1).indices
        return (in_segments(self.logits, best)[0] > value).sum(-1)

    def top_k(self, k: int) -> Tensor:
        """The ``k`` most probable tokens, the likeliest first, [..., N, k]."""
        if k not in self._top_k:
            self._top_k[k] = largest_of(self.logits, min(k, self.logits.shape[-1]), self.segment_maxima)
        return self._top_k[k]

    def top_p(self, share: float) -> TopSet:
        """The smallest set of most probable tokens whose probabilities reach ``share``."""
        if share not in self._top_p:
            in_steps = self.segment_maxima is None
            self._top_p[share] = top_set_of_topk(self.p, share) if in_steps else self._top_set(share)
        return self._top_p[share]

    def _top_set(self, share: float) -> TopSet:
        ids = self.top_k(_FIRST_LOOK)
        values = self.p.gather(-1, ids)
        if bool((values.sum(-1) < share).any()):
            return larger_top_set(self.p, share)
        return TopSet(ids, are_needed(values, share).double())


def are_needed(values: Tensor, share: float) -> Tensor:
    """Which of some probabilities, the largest first, it takes to reach a share."""
    return values.cumsum(-1) - values < share


def top_set_of_topk(p: Tensor, share: float) -> TopSet:
    """The smallest set of most probable tokens whose probabilities reach ``share``, of more and more tokens."""
    size = min(_FIRST_LOOK, p.shape[-1])
    values, ids = p.topk(size, dim=-1)
    while size < p.shape[-1] and bool((values.sum(-1) < share).any()):
        size = min(size * 4, p.shape[-1])
        values, ids = p.topk(size, dim=-1)
    return TopSet(ids, are_needed(values, share).double())


def larger_top_set(p: Tensor, share: float) -> TopSet:
    """The smallest set of most probable tokens whose probabilities reach ``share``, on a CPU."""
    vocabulary = p.shape[-1]
    # Tokens below this bound have less than half of what the set may leave out, all of them together. In a trained
    # model that is nearly the whole vocabulary, so that only the few others are sorted.
    bound = (1 - share) / (2 * vocabulary)
    members = [_members_of_top_set(token_p, bound, share) for token_p in p.reshape(-1, vocabulary).numpy()]
    sizes = [len(ids) for ids in members]
    most = max(sizes)
    if most > vocabulary // _WORTHWHILE:
        inside = np.zeros((len(members), vocabulary))
        for token, ids in enumerate(members):
            inside[token, ids] = 1
        return TopSet(None, torch.from_numpy(inside).view(p.shape))
    packed = np.zeros((len(members), most), dtype=np.int64)
    for token, ids in enumerate(members):
        packed[token, : len(ids)] = ids
    is_place = torch.arange(most) < torch.tensor(sizes)[:, None]
    shape = (*p.shape[:-1], most)
    return TopSet(torch.from_numpy(packed).view(shape), is_place.double().view(shape))


def _members_of_top_set(p_V: FloatArray, bound: float, share: float) -> IntArray:
    """Ids of the smallest set that reaches ``share``, in the vocabulary's order; none where there are no numbers."""
    ids = np.flatnonzero(p_V >= bound)
    if not len(ids):
        return ids
    values = p_V[ids]
    # numpy sorts numbers alone twenty times as fast as torch sorts them with their places
    descending = np.sort(values)[::-1]
    size = int(np.count_nonzero(descending.cumsum() - descending < share))
    least = descending[max(size, 1) - 1]
    inside = values >= least
    if np.count_nonzero(inside) > size:
        # of the tokens that are as probable as the last one of the set, the first ones are in it
        equal = values == least
        n_equal = size - np.count_nonzero(values > least)
        inside &= ~equal | (equal.cumsum() <= n_equal)
    return ids[inside]


def log_of(values: Tensor) -> Tensor:
    """Natural logarithms of numbers in float64."""
    if is_segmented(values) and torch.get_num_threads() < _NUMPYS_SPEED:
        logarithms = torch.empty_like(values)
        np.log(values.numpy(), out=logarithms.numpy())
        return logarithms
    return values.log()


def is_segmented(values: Tensor) -> bool:
    """Whether a vocabulary is large enough, and on a CPU, to be looked at in other ways than torch's."""
    return values.device.type == "cpu" and values.shape[-1] >= _SEGMENT * _FEWEST_SEGMENTS


def maxima_of_segments(logits: Tensor) -> Tensor | None:
    """The largest logit of every few neighbours in the vocabulary, [..., segments]; None where that is of no use.

    On a CPU ``argmax`` and ``topk`` look at one value at a time, while maxima are vectorised. Once the maxima of all
    segments are known, only a few segments are left to be looked at.
    """
    if not is_segmented(logits):
        return None
    whole = logits.shape[-1] // _SEGMENT
    maxima = logits[..., : whole * _SEGMENT].unflatten(-1, (whole, _SEGMENT)).amax(-1)
    # the last few tokens are a segment of their own
    rest = logits[..., whole * _SEGMENT :]
    return torch.cat([maxima, rest.amax(-1, keepdim=True)], -1) if rest.shape[-1] else maxima


def in_segments(logits: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
    """The logits in some segments of each token, and their places; beyond the last one −∞."""
    size = logits.shape[-1]
    places = (segments[..., None] * _SEGMENT + torch.arange(_SEGMENT)).flatten(-2)
    values = logits.gather(-1, places.clamp_max(size - 1))
    return values.masked_fill(places >= size, -torch.inf) if size % _SEGMENT else values, places


def most_probable(logits: Tensor, maxima: Tensor | None) -> Tensor:
    """Places of the largest values along the last dimension, the first of equal ones; with maxima of segments."""
    if maxima is None:
        return logits.argmax(-1)
    values, places = in_segments(logits, maxima.argmax(-1, keepdim=True))
    return places.gather(-1, values.argmax(-1, keepdim=True))[..., 0]


def largest_of(logits: Tensor, k: int, maxima: Tensor | None) -> Tensor:
    """Places of the ``k`` largest values along the last dimension, the largest first; with maxima of segments."""
    if maxima is None or maxima.shape[-1] < 4 * k:
        return logits.topk(k, dim=-1).indices
    # the k largest values are in the k segments with the largest maxima
    values, places = in_segments(logits, maxima.topk(k, dim=-1).indices)
    return places.gather(-1, values.topk(k, dim=-1).indices)
