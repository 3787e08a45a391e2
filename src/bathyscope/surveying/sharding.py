"""How large shards, calls, batches and convoys are: what memory allows, and what is worth a file or a call."""

from collections.abc import Sequence
from typing import Final, TypeVar

import torch

from bathyscope.errors import ModelError
from bathyscope.measures.base import ModelFacts
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.memory import free_bytes, tokens_that_fit
from bathyscope.model.ranks import agreed
from bathyscope.wavefront.calls import default_tokens
from bathyscope.wavefront.places import is_accelerator

SHARD_TOKENS: Final = 2048
"""Tokens of prompts in one shard, at least, where nothing else is asked for."""
_SHARD_WORK: Final = 5e10
"""Multiply-adds in the blocks that are worth a file: some ten seconds of a small model on one core."""
_BATCH_BYTES: Final = 16 << 20
"""What the residual streams of a batch's rows may take where a batch holds more than one call's tokens."""
_ACCELERATOR_FACTOR: Final = 64
_MOST_CALLS: Final = 4
"""Beyond this many calls' tokens a larger batch is no faster."""
_MOST_SHARDS: Final = 16
"""Shards of one convoy, so that little is lost when it is interrupted."""
_READ_BYTES: Final = 1e9
"""Bytes of weights that a disk gives in a second, about."""
_READINGS_WORTH: Final = 10.0
"""A convoy computes for this many times as long as its blocks take to be read, and then ends with its shard."""

Unit = TypeVar("Unit")


def call_size(
    anatomy: Anatomy, longest: int, state: int, memory: int | None, device: torch.device, coming: int = 0
) -> int | None:
    """Return the tokens in one call of a block; None = the usual number, where memory is no limit.

    Args:
        longest: tokens of the longest prompt.
        state: bytes of its rows.
        memory: what a survey may take besides the weights; None = on an accelerator what is free there.
        coming: bytes of weights that are not loaded yet, for which room must be left in what is free.

    Raises:
        ModelError: the rows alone take more than ``memory``.
    """
    free = agreed(free_bytes(device)) if memory is None and is_accelerator(device) else None
    budget = memory if free is None else free - coming
    if budget is None:
        return None
    if memory is not None and state > memory:
        raise ModelError(
            f"The rows of a prompt of {longest} tokens take about {state / 1e9:.3g} GB, and memory= allows "
            f"{memory / 1e9:.3g} GB; allow more, give shorter prompts, or fewer measures at a time."
        )
    return tokens_that_fit(anatomy, longest, max(0, budget - state), default_tokens(device), device)


def shard_tokens(facts: ModelFacts, rows: float) -> int:
    """Return the tokens of prompts in one shard, at most, by default: a multiple of ``SHARD_TOKENS``.

    Writing and reading a shard takes some tenths of a second whatever it holds, so that shards are longer where a
    model is so small that it computes that many tokens in no time.

    Args:
        rows: of the prompt that has most, full ones.
    """
    parameters = sum(p.numel() for block in facts.anatomy.blocks for p in block.parameters())
    return SHARD_TOKENS * max(1, round(_SHARD_WORK / (SHARD_TOKENS * rows * max(1, parameters))))


def shards_of(lengths: Sequence[int], tokens: int) -> list[tuple[int, int]]:
    """Cut prompts into [first, last) ranges of at most ``tokens`` tokens, or of a single longer prompt."""
    edges, filled = [0], 0
    for index, length in enumerate(lengths):
        if filled and filled + length > tokens:
            edges.append(index)
            filled = 0
        filled += length
    return list(zip(edges, [*edges[1:], len(lengths)]))


def convoys_of(
    units: Sequence[Unit],
    sizes: Sequence[int],
    shards: Sequence[int],
    room: int,
    seconds: Sequence[float],
    most_seconds: float,
) -> list[list[Unit]]:
    """Gather batches that visit streamed blocks together, in their order: as many as fit, and no more than 16 shards.

    A convoy holds one batch at least. A survey that is interrupted loses the convoy that it is in, so that none goes
    on with another shard that would take it beyond ``most_seconds``.

    Args:
        sizes: bytes of each one's state.
        shards: the shard that each belongs to.
        room: bytes for states at a time.
        seconds: predicted for each.
        most_seconds: worth one reading of the blocks.
    """
    seconds_by_shard = dict.fromkeys(shards, 0.0)
    for shard, unit_seconds in zip(shards, seconds, strict=True):
        seconds_by_shard[shard] += unit_seconds
    convoys: list[list[Unit]] = []
    filled, seen = 0, set[int]()
    for unit, size, shard in zip(units, sizes, shards, strict=True):
        predicted = sum(seconds_by_shard[member] for member in seen | {shard})
        too_long = shard not in seen and predicted > most_seconds
        if not convoys or filled + size > room or len(seen | {shard}) > _MOST_SHARDS or too_long:
            convoys.append([])
            filled, seen = 0, set()
        convoys[-1].append(unit)
        filled, seen = filled + size, seen | {shard}
    return convoys


def convoy_seconds(anatomy: Anatomy, least: float) -> float:
    """Return the seconds of computing that are worth one reading of all blocks, ``least`` of a small model."""
    # runs of one block share its weights, which are read once
    stored = sum(p.numel() * p.element_size() for block in anatomy.sources for p in block.parameters())
    return max(least, _READINGS_WORTH * stored / _READ_BYTES)


def batch_room(
    anatomy: Anatomy, dtype: torch.dtype, call_tokens: int, device: torch.device, memory: int | None = None
) -> int:
    """Return the rows × tokens that may be in one batch: a call's, or several calls' where the model is narrow.

    Each batch costs some hundredths of a second besides its calls, which counts only in narrow models; in wide ones
    more prompts at a time would only take memory.

    Args:
        dtype: of the residual stream.
        call_tokens: rows × tokens in one call of a block.
        device: on an accelerator what is around a call costs more than the call, up to wider models.
        memory: bytes that a survey may take besides the weights, half of them for a batch's rows.
    """
    allowed = _BATCH_BYTES * (_ACCELERATOR_FACTOR if is_accelerator(device) else 1)
    room = min(allowed, memory // 2 if memory is not None else allowed) // (anatomy.width * dtype.itemsize)
    return max(call_tokens, min(_MOST_CALLS * call_tokens, room))
