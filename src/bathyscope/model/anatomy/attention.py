"""A block's attention weights, seen while it runs, a few queries at a time.

They are seen at one of two places. Where torch's fused kernel attends, its queries, keys and mask are noted on
the way, and the weights follow from them for as few queries at a time as one likes. Where a family computes its
weights in the open, its attention module returns them, and they are taken from there. The block's own result is
untouched either way.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.configurations import block_values
from bathyscope.model.anatomy.gaps import random_ids, tolerance
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.precision import wide_dtype, widened
from bathyscope.model.anatomy.replay import State
from bathyscope.model.ranks import gathered, of_all, rank, size

ENTRIES = 1 << 22
"""Weights that exist at a time: 16 MiB in float32."""
_TRIAL = "attention heads"


class Attention(abc.ABC):
    """The attention weights A[q, k] of all rows and heads in one call of a block; keys count from token 0."""

    @property
    @abc.abstractmethod
    def size(self) -> tuple[int, int, int, int]:
        """Rows, heads, queries and keys."""

    @abc.abstractmethod
    def weights(self, first: int, stop: int) -> Tensor:
        """Return weights [rows, heads, stop − first, keys] of the queries ``first … stop−1``, in float32 or wider."""

    def chunks(self, entries: int = ENTRIES) -> Iterator[tuple[int, Tensor]]:
        """Yield all queries, some at a time: the first one's index and their weights [rows, heads, queries, keys]."""
        rows, heads, queries, keys = self.size
        step = max(1, entries // (rows * heads * keys))
        for first in range(0, queries, step):
            yield first, self.weights(first, min(first + step, queries))


@dataclass(frozen=True)
class Fused(Attention):
    """One call of torch's fused kernel: softmax(scale · q kᵀ + mask).

    Args:
        query_NHTD, key_NGKD: after rotary embedding; G divides H, and H/G neighbouring heads share their keys.
        value_NGKD, out_NHTD: what was attended to, and what the kernel made of it.
        mask: True at the pairs that may attend, or numbers that are added to the scores; None = every pair may.
        causal: no query attends to a later key.
        scale: of the scores.
    """

    query_NHTD: Tensor
    key_NGKD: Tensor
    value_NGKD: Tensor
    out_NHTD: Tensor
    mask: Tensor | None
    causal: bool
    scale: float

    @property
    def size(self) -> tuple[int, int, int, int]:
        rows, heads, queries, _ = self.query_NHTD.shape
        return rows, heads, queries, self.key_NGKD.shape[2]

    def weights(self, first: int, stop: int) -> Tensor:
        rows, heads, queries, keys = self.size
        wide = wide_dtype(self.query_NHTD.dtype)
        query_NHQD = self.query_NHTD[:, :, first:stop].to(wide) * self.scale
        # queries of heads with the same keys stand one after another, so that keys need not be repeated
        query_NGQD = query_NHQD.reshape(rows, self.key_NGKD.shape[1], -1, query_NHQD.shape[-1])
        scores = (query_NGQD @ self.key_NGKD.to(wide).mT).view(rows, heads, stop - first, keys)
        if self.causal:
            query, key = (torch.arange(n, device=scores.device) for n in (queries, keys))
            scores = scores.masked_fill_(key > query[first:stop, None], -torch.inf)
        if self.mask is not None:
            mask = self.mask if self.mask.shape[-2] == 1 else self.mask[..., first:stop, :]
            scores = scores.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else scores.add_(mask)
        return scores.softmax(-1)

    def gap(self) -> float:
        """Return how far weights · values are from the kernel's own result, relative to its largest entry."""
        weights = torch.cat([chunk for _, chunk in self.chunks()], dim=2)
        values = self.value_NGKD.to(weights.dtype)
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
        kernel_NHTD = self.out_NHTD.to(weights.dtype)
        return float((weights @ values - kernel_NHTD).abs().max() / kernel_NHTD.abs().max().clamp_min(1e-12))

    def same_scores(self, other: Fused) -> bool:
        """Whether both attend in the same way, if perhaps to other values."""
        return torch.equal(self.query_NHTD, other.query_NHTD) and torch.equal(self.key_NGKD, other.key_NGKD)


@dataclass(frozen=True)
class Returned(Attention):
    """Weights [rows, heads, queries, keys] that an attention module returned."""

    weights_NHTK: Tensor

    @property
    def size(self) -> tuple[int, int, int, int]:
        rows, heads, queries, keys = self.weights_NHTK.shape
        return rows, heads, queries, keys

    def weights(self, first: int, stop: int) -> Tensor:
        chunk = self.weights_NHTK[:, :, first:stop]
        return widened(chunk)


@dataclass
class Seen:
    """What was seen of attention during one call of a block."""

    fused: list[Fused] = field(default_factory=list)
    returned: list[Returned] = field(default_factory=list)

    @property
    def attention(self) -> Attention | None:
        """The block's attention, the first where it attends in several ways; None where it showed none."""
        return next(iter((*self.fused, *self.returned)), None)

    @property
    def ways(self) -> int:
        """How many times it attended, calls that differ only in the values they attend to counted once."""
        others = sum(not call.same_scores(self.fused[0]) for call in self.fused[1:])
        return others + 1 if self.fused else len(self.returned)


@contextmanager
def attending(block: nn.Module, rows: int, tokens: int) -> Iterator[Seen]:
    """Watch the next call of a block on ``rows`` sequences of ``tokens`` tokens."""
    seen = Seen()

    def take(call: Call) -> None:
        for value in call.output if isinstance(call.output, tuple | list) else ():
            # a module inside another hands on the same tensor
            repeated = any(value is earlier.weights_NHTK for earlier in seen.returned)
            if not repeated and _is_attention(value, rows, tokens):
                seen.returned.append(Returned(value))

    with called([(path, module) for path, module in block.named_modules() if path], take), _Kernel(seen.fused, tokens):
        yield seen


class _Kernel(TorchFunctionMode):
    """Note the calls of torch's fused kernel.

    A mode of torch sees the function wherever a family's code imported it from; a replaced attribute would miss names
    that were bound before.
    """

    def __init__(self, calls: list[Fused], tokens: int) -> None:
        super().__init__()
        self._calls, self._tokens = calls, tokens

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        arguments = kwargs or {}
        out = func(*args, **arguments)
        if func is scaled_dot_product_attention:
            call = _noted(out, *args, **arguments)
            # attention over the streams of one token has other queries (attention residuals)
            if call.query_NHTD.shape[-2] == self._tokens:
                self._calls.append(call)
        return out


def _noted(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Fused:
    """Return one call; its arguments have the kernel's own names, under which families pass them."""
    score_scale = query.shape[-1] ** -0.5 if scale is None else scale
    return Fused(query, key, value, out, attn_mask, is_causal, score_scale)


def _is_attention(value: Any, rows: int, tokens: int) -> bool:
    """Whether it has the shape of weights, nothing below 0, and a first query that attends to nothing later."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim != 4:
        return False
    if value.shape[0] != rows or value.shape[2:] != (tokens, tokens):
        return False
    return not bool(value[:, :, 0, 1:].any()) and bool(value.amin() >= 0)


@torch.no_grad()
def attention_heads(anatomy: Anatomy) -> tuple[int, ...]:
    """Count the attention heads of every block, 0 where a block shows no attention weights.

    Found on a short random batch. In every block that shows weights they must be at least 0, sum to at most 1 for
    each query (an attention sink takes the rest) and never lie on later tokens. Where the fused kernel attends,
    they must also turn its values into its result.

    Raises:
        ModelError: no block shows weights, or what is seen fails one of these tests.
    """
    # a survey asks whether the measure is possible, and then prepares it; streamed blocks would be read twice
    if _TRIAL in anatomy.trials:
        return cast(tuple[int, ...], anatomy.trials[_TRIAL])
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    ids_BT = random_ids(anatomy.model)
    heads: list[int] = []
    with evaluating(anatomy.model):
        replay = anatomy.replay(ids_BT)
        resid_BTD = replay.recording.resid0_BTD
        state: State = {}
        for index, block in enumerate(anatomy.blocks):
            with attending(block, *ids_BT.shape) as seen:
                resid_BTD = replay.run(block, index, resid_BTD, state=state)
            heads.append(0 if seen.attention is None else seen.attention.size[1] * _ranks_of_heads(anatomy, seen))
            _require_sound(seen, index, anatomy, tolerance(parameter.dtype))
    if not any(heads):
        raise ModelError(
            f"No block of this {anatomy} model shows attention weights: none comes out of an attention module, "
            "and torch's fused kernel is not used. State-space, recurrent and convolution mixers have none. Kernels "
            "that hide them (flash attention) can be avoided: load the model with attn_implementation='sdpa' or "
            "'eager'."
        )
    anatomy.trials[_TRIAL] = tuple(heads)
    return tuple(heads)


def all_heads(values_BHO: Tensor, heads: int) -> Tensor:
    """Return what was computed head by head for all heads of a block (collective where ranks share them).

    Args:
        values_BHO: [rows, heads of this rank, ...].
        heads: of the block.
    """
    return values_BHO if values_BHO.shape[1] == heads else gathered(values_BHO, 1)


def _ranks_of_heads(anatomy: Anatomy, seen: Seen) -> int:
    """Return over how many ranks the heads of a block are divided, in their order; 1 where this one has all of them.

    Raises:
        ModelError: it has neither all of them nor its even share.
    """
    if size() == 1 or seen.attention is None:
        return 1
    heads = {int(count) for count in block_values(config_of(anatomy.model), "num_attention_heads")}
    here = seen.attention.size[1]
    if here in heads and here * size() not in heads:
        return 1
    if here * size() in heads and here not in heads:
        return size()
    raise ModelError(
        f"Rank {rank()} of {size()} sees {here} heads of attention, and the configuration of this {anatomy} model says "
        f"{' or '.join(map(str, sorted(heads)))}, so that it cannot be said which heads these are. Load it without "
        "tensor_parallel for attention_locality."
    )


def _require_sound(seen: Seen, index: int, anatomy: Anatomy, allowed: float) -> None:
    attention = seen.attention
    if attention is None:
        return
    fault = _fault(torch.cat([chunk for _, chunk in attention.chunks()], dim=2), allowed)
    if seen.ways > 1:
        fault = f"are {seen.ways} different maps"
    elif not fault and isinstance(attention, Fused) and not attention.gap() <= allowed:
        fault = f"give another result than its attention does (gap {attention.gap():.1e}, allowed {allowed:.0e})"
    # heads of another rank count as well, and all ranks refuse together
    fault = next((text for text in of_all(fault) if text), "")
    if fault:
        raise ModelError(
            f"The attention weights seen in block {index} of this {anatomy} model {fault}, so that it cannot be "
            "said where the block attends."
        )


def _fault(weights_NHTK: Tensor, allowed: float) -> str:
    """Say what is wrong with attention weights; an empty text where nothing is."""
    total = float(weights_NHTK.sum(-1).max())
    if not float(weights_NHTK.min()) >= 0:
        return "are not all 0 or more"
    if not total <= 1 + allowed:
        return f"sum to {total:.3g} for one query"
    if weights_NHTK.triu(1).any():
        return "also lie on later tokens"
    return ""
