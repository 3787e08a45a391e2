"""Comparing next-token distributions of rows with a reference, in chunks of tokens.

Nothing of size tokens × vocabulary outlives a chunk. All distributions are taken in float64: differences of
nearly equal probabilities lose their digits in float32. KL and loss in nats, entropy and JSD in bits.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from bathyscope.wavefront.calls import even_pieces, in_pieces
from bathyscope.wavefront.places import is_accelerator

Read = Callable[[Tensor], Tensor]
# a chunk's arrays should stay near a CPU's caches, but one visit of the unembedding must serve several tokens
_CHUNK_BYTES = 32 << 20
# in float64, of a chunk's distributions, that live at once
_COPIES = 8
_FEWEST_TOKENS = 8
_ACCELERATOR_FACTOR = 32
_LN2 = math.log(2.0)
_WHAT = "Comparing predictions"
_SEVERAL = ("top_ids", "top_probabilities")
TOP = 5
"""Tokens that ``top_ids`` and ``top_probabilities`` name; fewer where the vocabulary is smaller."""


@dataclass
class Distribution:
    """Next-token distributions of some tokens: ``logits`` [..., N, vocabulary], everything else on demand."""

    logits: Tensor
    _top_k: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _top_p: dict[float, Tensor] = field(default_factory=dict, repr=False)

    @cached_property
    def log_p(self) -> Tensor:
        """Log-probabilities in float64."""
        return self.logits.double().log_softmax(-1)

    @cached_property
    def p(self) -> Tensor:
        """Probabilities in float64."""
        return self.log_p.exp()

    @cached_property
    def neg_entropy(self) -> Tensor:
        """Σ p log p in nats, [..., N]."""
        return _dot(self.p, self.log_p)

    @cached_property
    def top1(self) -> Tensor:
        """The most probable token, [N]."""
        return self.logits.argmax(-1)

    def top_k(self, k: int) -> Tensor:
        """The ``k`` most probable tokens, [N, k]."""
        if k not in self._top_k:
            self._top_k[k] = self.logits.topk(min(k, self.logits.shape[-1]), dim=-1).indices
        return self._top_k[k]

    def top_p(self, share: float) -> Tensor:
        """1 at the smallest set of most probable tokens whose probabilities reach ``share``, [N, vocabulary]."""
        if share not in self._top_p:
            size = min(64, self.p.shape[-1])
            values, indices = self.p.topk(size, dim=-1)
            while size < self.p.shape[-1] and bool((values.sum(-1) < share).any()):
                size = min(size * 4, self.p.shape[-1])
                values, indices = self.p.topk(size, dim=-1)
            inside = (values.cumsum(-1) - values < share).double()
            self._top_p[share] = torch.zeros_like(self.p).scatter_(-1, indices, inside)
        return self._top_p[share]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


@dataclass
class Pair:
    """A reference and a row's distribution of the same tokens; ``targets`` are next ids, −1 where none."""

    ref: Distribution
    row: Distribution
    targets_N: Tensor | None
    k: int = 5
    top_p: float = 0.9

    @cached_property
    def kl_terms(self) -> Tensor:
        """The summands of KL(row ‖ reference), [N, vocabulary]."""
        return (self.row.log_p - self.ref.log_p).mul_(self.row.p)

    @cached_property
    def kl(self) -> Tensor:
        """KL(row ‖ reference) in nats, [N]."""
        return self.kl_terms.sum(-1)

    @cached_property
    def kl_top(self) -> Tensor:
        """What the reference's top-p set adds to it, [N]."""
        return _dot(self.kl_terms, self.ref.top_p(self.top_p))


def kl_from_reference(pair: Pair) -> Tensor:
    """KL(reference ‖ row) in nats."""
    return (pair.ref.neg_entropy - _dot(pair.ref.p, pair.row.log_p)).clamp_min(0)


def kl_to_reference(pair: Pair) -> Tensor:
    """KL(row ‖ reference) in nats."""
    return pair.kl.clamp_min(0)


def jsd(pair: Pair) -> Tensor:
    """Jensen–Shannon divergence in bits (0 … 1)."""
    mean = (pair.row.p + pair.ref.p).mul_(0.5)
    # the floor only guards 0 · log 0 where both probabilities underflow
    neg_entropy = _dot(mean, mean.clamp_min(1e-300).log_())
    return ((0.5 * (pair.row.neg_entropy + pair.ref.neg_entropy) - neg_entropy) / _LN2).clamp(0, 1)


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
    """Cross-entropy of the next token in nats, NaN where there is none."""
    if pair.targets_N is None:
        raise ValueError("loss needs the next tokens")
    targets = pair.targets_N.clamp_min(0).expand(pair.row.logits.shape[:-1])
    picked = -pair.row.log_p.gather(-1, targets[..., None])[..., 0]
    return picked.masked_fill(pair.targets_N < 0, float("nan"))


def overlap(pair: Pair) -> Tensor:
    """|top_k(row) ∩ top_k(reference)| / k."""
    ref, row = pair.ref.top_k(pair.k), pair.row.top_k(pair.k)
    return (row[..., :, None] == ref[..., None, :]).any(-1).double().mean(-1)


def rank(pair: Pair) -> Tensor:
    """1-based rank in the row of the reference's most probable token."""
    top = pair.ref.top1.expand(pair.row.logits.shape[:-1])
    value = pair.row.logits.gather(-1, top[..., None])
    return 1 + (pair.row.logits > value).sum(-1).double()


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
        *(kl_from_reference, kl_to_reference, jsd, l2, entropy, top1_agreement),
        *(loss, overlap, rank, kl_top_p, kl_tail, top_ids, top_probabilities),
    )
}


@torch.no_grad()
def compare(
    read: Read,
    reference_ND: Tensor,
    rows: Sequence[Tensor],
    metrics: Sequence[str],
    *,
    vocabulary: int,
    targets_N: Tensor | None = None,
    read_row: Callable[[Tensor, Tensor], Tensor] | None = None,
    k: int = 5,
    top_p: float = 0.9,
) -> dict[str, Tensor]:
    """Metrics of every row against the reference at every token.

    Args:
        read: residual vectors [N, width] → logits [N, vocabulary].
        rows: final states [N, width] of each row, same tokens; a row that is ``reference_ND`` itself is not
            read again.
        targets_N: ids of the next tokens, −1 where there is none; for ``loss``.
        read_row: (row vectors, reference vectors) → logits, where rows are read otherwise than the reference.

    Returns:
        name → float64 [rows, N], or [rows, N, TOP] of the top tokens.
    """
    tokens, device = reference_ND.shape[0], reference_ND.device
    found: dict[str, Tensor] = {}
    most = _read_at_once(vocabulary, device)

    def compared(first: int, last: int) -> None:
        vectors = reference_ND[first:last]
        ref = Distribution(read(vectors))
        targets = None if targets_N is None else targets_N[first:last]
        together = max(1, most // (last - first)) if is_accelerator(device) else 1
        for own in _runs(rows, reference_ND if read_row is None else None, together):
            if read_row is None and rows[own.start] is reference_ND:
                row = ref
            else:
                row = Distribution(_read(read, read_row, [rows[i][first:last] for i in own], vectors))
            pair = Pair(ref, row, targets, k, top_p)
            for name in metrics:
                values = METRICS[name](pair)
                if name not in found:
                    trailing = values.shape[values.ndim - (name in _SEVERAL) :]
                    found[name] = values.new_empty((len(rows), tokens, *trailing), dtype=torch.float64)
                found[name][own.start : own.stop, first:last] = values

    in_pieces(tokens, most, compared, _WHAT, device)
    return found


def _runs(rows: Sequence[Tensor], known: Tensor | None, most: int) -> Iterator[range]:
    """Neighbouring rows that are read out in one product; one that is known already stands alone."""
    for _, own in groupby(range(len(rows)), key=lambda index: index if rows[index] is known else -1):
        numbers = list(own)
        for first, last in even_pieces(len(numbers), most):
            yield range(numbers[0] + first, numbers[0] + last)


def _read(
    read: Read, read_row: Callable[[Tensor, Tensor], Tensor] | None, rows: Sequence[Tensor], reference_ND: Tensor
) -> Tensor:
    """Logits of one row [N, vocabulary], or of several [rows, N, vocabulary]."""
    vectors = rows[0] if len(rows) == 1 else torch.cat(list(rows))
    logits = read(vectors) if read_row is None else read_row(vectors, reference_ND.repeat(len(rows), 1))
    return logits if len(rows) == 1 else logits.unflatten(0, (len(rows), -1))


@torch.no_grad()
def at_one_position(
    read: Read, control_D: Tensor, rows_ND: Tensor, metric: Callable[[Pair], Tensor], *, vocabulary: int
) -> Tensor:
    """A metric of rows against the control at one position, [rows, …] in float64.

    The control is read along with every chunk of rows, since a matrix product depends on the batch it is in.
    """
    found: list[Tensor] = []

    def compared(first: int, last: int) -> None:
        logits = read(torch.cat([control_D[None], rows_ND[first:last]]))
        found.append(metric(Pair(Distribution(logits[:1]), Distribution(logits[1:]), None)))

    # about four float64 copies of a chunk's distributions live at once
    most = _read_at_once(vocabulary, rows_ND.device, copies=4)
    in_pieces(len(rows_ND), most, compared, _WHAT, rows_ND.device)
    return torch.cat(found)


def same_or(reference_ND: Tensor, other_ND: Tensor) -> Tensor:
    """The reference itself where ``other_ND`` has its very bits (it need not be read again), else the other."""
    return reference_ND if torch.equal(reference_ND, other_ND) else other_ND


def bytes_at_once(rows: float, tokens: int, vocabulary: int, device: torch.device) -> int:
    """What comparing rows of so many tokens takes, a chunk at a time."""
    together = rows * tokens if is_accelerator(device) else min(rows, 1) * tokens
    return int(min(together, _read_at_once(vocabulary, device)) * _COPIES * 8 * vocabulary)


def _read_at_once(vocabulary: int, device: torch.device, copies: int = _COPIES) -> int:
    """Distributions that are compared at once."""
    room = _CHUNK_BYTES * (_ACCELERATOR_FACTOR if is_accelerator(device) else 1)
    return max(_FEWEST_TOKENS, room // (copies * 8 * vocabulary))
