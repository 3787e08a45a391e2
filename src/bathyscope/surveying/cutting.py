"""How prompts are cut: into shards, each a file that is kept when a survey is interrupted, and into stretches.

A *stretch* is a run of neighbouring prompts that may be computed together. Which prompts share a stretch follows from
the model, the prompts and the measures alone, so that numbers do not depend on the machine. A *shard* is a run of
stretches that takes one to two minutes by the rates of the machine on which the run was begun. Its edges and those
rates are kept with the run: whoever goes on with it, wherever, has the same shards.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import torch

from bathyscope.runs.manifest import Identity
from bathyscope.surveying.rates import Rates, nominal_rates
from bathyscope.surveying.sharding import shards_of
from bathyscope.surveying.work import PromptWork
from bathyscope.wavefront.places import is_accelerator

SHARD_SECONDS: Final = 75.0
"""Predicted for a shard, at most, but for a single stretch that takes longer: what an interruption may lose."""
_STRETCH_FLOPS: Final = {False: 2e12, True: 1e15}
"""Of one stretch, at most, on a CPU and on an accelerator: some twenty seconds."""

Edges = tuple[tuple[int, int], ...]
"""[first, last) prompts of each shard or stretch."""


@dataclass(frozen=True)
class Pace:
    """The rates by which shards were sized, as a run keeps them.

    Args:
        blocks: floating-point operations of matrix products in blocks, per second.
        compared, in_all_ways: entries of the vocabulary per second, in the usual ways and in most ways.
    """

    blocks: float
    compared: float
    in_all_ways: float

    @classmethod
    def of(cls, rates: Rates) -> Self:
        """Return what of a machine's rates decides on shards."""
        return cls(rates.blocks or rates.matrix, rates.compared, rates.in_all_ways or rates.compared)

    def seconds(self, work: PromptWork, vocabulary: int) -> float:
        """Predict the seconds of a prompt."""
        return sum(self.seconds_by_kind([work], vocabulary).values())

    def seconds_by_kind(self, work: Sequence[PromptWork], vocabulary: int) -> dict[str, float]:
        """Predict the seconds of prompts, in ``blocks`` and in kinds of readouts."""
        rates = Rates(self.blocks, self.compared, "", in_all_ways=self.in_all_ways)
        return rates.seconds_by_kind(work, vocabulary)


@dataclass(frozen=True)
class EarlierCut:
    """How a run that is there was cut, as its manifest says.

    Args:
        batch_tokens: tokens of prompts in one shard, at most.
        edges: of its shards.
        pace: by which they were sized; None = by tokens alone.
    """

    batch_tokens: int | None
    edges: Edges
    pace: Pace | None

    @classmethod
    def of(cls, identity: Identity) -> Self:
        """Return the cut of a run."""
        return cls(identity.batch_tokens, identity.plan, None if identity.pace is None else Pace(**identity.pace))


@dataclass(frozen=True)
class Shards:
    """The shards of a survey, and the stretches that they are made of.

    Args:
        pace: None = shards are sized by tokens alone.
    """

    edges: Edges
    stretches: Edges
    pace: Pace | None

    def within(self, first: int, last: int) -> list[range]:
        """Return the prompts of every stretch of a shard."""
        inside = [(max(a, first), min(b, last)) for a, b in self.stretches]
        return [range(a, b) for a, b in inside if a < b]

    @property
    def kept_pace(self) -> dict[str, Any] | None:
        """Return the pace as a manifest keeps it."""
        return None if self.pace is None else asdict(self.pace)


def cut_prompts(
    work: Sequence[PromptWork],
    vocabulary: int,
    device: torch.device,
    batch_tokens: int,
    *,
    before: EarlierCut | None = None,
    by_time: bool = True,
    measure: Callable[[], Rates] | None = None,
) -> Shards:
    """Decide on the shards of a survey.

    Args:
        work: of each prompt.
        device: that computes.
        batch_tokens: tokens of prompts in one shard, at most.
        before: the cut of the run that is continued; its shards stay, but the last one where prompts come behind.
        by_time: size shards by predicted seconds too.
        measure: measures this machine, where the rates decide something; None = nominal rates.
    """
    lengths = [prompt_work.tokens for prompt_work in work]
    most_flops = _STRETCH_FLOPS[is_accelerator(device)]
    by_tokens = shards_of(lengths, batch_tokens)
    stretches = _cut_within(by_tokens, [prompt_work.block_flops for prompt_work in work], most_flops)
    if before is not None:
        pace = before.pace
    elif by_time:
        pace = Pace.of(nominal_rates(device))
        nominal = [pace.seconds(prompt_work, vocabulary) for prompt_work in work]
        # nothing is measured where the whole survey is over before a shard would be
        if measure is not None and sum(nominal) > SHARD_SECONDS / 8 and len(stretches) > len(by_tokens):
            pace = Pace.of(measure())
    else:
        pace = None
    edges = _shard_edges(work, vocabulary, by_tokens, stretches, pace, before)
    return Shards(edges, _split_at(stretches, edges), pace)


def _shard_edges(
    work: Sequence[PromptWork],
    vocabulary: int,
    by_tokens: Sequence[tuple[int, int]],
    stretches: Sequence[tuple[int, int]],
    pace: Pace | None,
    before: EarlierCut | None,
) -> Edges:
    """Return the shards: the earlier ones, and behind them stretches joined while a shard's seconds allow it."""
    earlier: list[tuple[int, int]] = []
    if before is not None and before.edges[-1][1] == len(work):
        return before.edges
    if before is not None and before.edges[-1][1] < len(work):
        earlier = list(before.edges[:-1])
    begin = earlier[-1][1] if earlier else 0
    starts = {first for first, _ in by_tokens}
    edges, seconds = [begin], 0.0
    for first, last in _split_at(stretches, [*earlier, (begin, len(work))]):
        if first < begin:
            continue
        stretch_seconds = (
            0.0 if pace is None else sum(pace.seconds(prompt_work, vocabulary) for prompt_work in work[first:last])
        )
        if first > begin and (first in starts or seconds + stretch_seconds > SHARD_SECONDS):
            edges.append(first)
            seconds = 0.0
        seconds += stretch_seconds
    return (*earlier, *zip(edges, [*edges[1:], len(work)]))


def _cut_within(ranges: Sequence[tuple[int, int]], sizes: Sequence[float], most: float) -> Edges:
    """Cut ranges further, into runs of at most ``most`` in all, or of a single one that is larger."""
    edges: list[int] = []
    for first, last in ranges:
        filled = 0.0
        for number in range(first, last):
            if number == first or filled + sizes[number] > most:
                edges.append(number)
                filled = 0.0
            filled += sizes[number]
    return tuple(zip(edges, [*edges[1:], len(sizes)]))


def _split_at(stretches: Sequence[tuple[int, int]], edges: Sequence[tuple[int, int]]) -> Edges:
    """Cut stretches at the edges of shards too, where a run that has grown has them elsewhere."""
    firsts = sorted({first for first, _ in (*stretches, *edges)})
    return tuple(zip(firsts, [*firsts[1:], stretches[-1][1]]))
