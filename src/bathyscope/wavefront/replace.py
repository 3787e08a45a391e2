"""Replaced rows: the residual stream, or a part's contribution, replaced at one boundary and some tokens.

Everything after the replacement is recomputed, and nothing before it: earlier blocks and earlier tokens are those of
the plain forward. So the row of boundary b and a span of tokens begins at b, and owns the tokens from the span's first
on.

Rows of neighbouring spans, mostly single tokens, form a *group*. It owns the tokens from its first span on, so that all
its rows have one shape and run in common calls. A few rows compute some tokens more than they must for that.

The first group of a prompt owns all tokens, and its control lends keys and values to the groups that begin later. In
families that cannot lend them, every group owns all tokens.

Every prompt is recorded again without pads, and without the tokens after the last one that a measure reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy, even_pieces
from bathyscope.wavefront.places import is_accelerator
from bathyscope.wavefront.probe import ReplacedStates
from bathyscope.wavefront.reader import Reader
from bathyscope.wavefront.rows import Replacement
from bathyscope.wavefront.slots import CONTROL, Slots

# What a call costs in addition to its tokens, in tokens. On one CPU core a block of width 256 takes 0.4 ms plus 11 µs a
# token, and lending keys and values half as much again; an accelerator is idle below some thousands of tokens.
_CALL_COST = 50
_CALL_COST_ACCELERATOR = 4000
_ROOM = 256 << 20
_ACCELERATOR_FACTOR = 16
# Some families take a forward of a single token for a step of generation, and run other code.
_SHORTEST = 2


@dataclass(frozen=True)
class Group:
    """Rows of one request: replaced at ``spans``, owning the tokens ``start`` … ``stop`` − 1."""

    replacement: Replacement
    spans: Sequence[range]
    start: int
    stop: int


def default_room(device: torch.device) -> int:
    """Return the bytes that the states of replaced rows may take at once."""
    return _ROOM * (_ACCELERATOR_FACTOR if is_accelerator(device) else 1)


def group_size(tokens: int, n_blocks: int, call_cost: float) -> int:
    """Return how many neighbouring tokens to replace in one group of tails.

    For T tokens, groups of g tokens cost more than the necessary tokens, in blocks × tokens: L · ``call_cost`` and a
    control of T/2 tokens on average for each of the T/g groups, and g(g−1)/2 clean tokens for each group and each of
    the L(L+1)/2 steps that its rows take. Groups of one size cost least, and this is the best size: 3 for 39 tokens
    and 24 blocks on a CPU, which computes 9 % more than necessary.

    Args:
        tokens: tokens of the prompt that rows compute.
        call_cost: what a call costs in addition to its tokens, in tokens.
    """
    return max(1, round(2 * math.sqrt((call_cost + tokens / 2) / (n_blocks + 1))))


def plan_sweeps(
    replacements: Sequence[Replacement],
    stops: Sequence[int],
    *,
    n_blocks: int,
    vector_bytes: int,
    policy: CallPolicy,
    tails: bool,
    call_cost: float,
    room: int,
) -> list[list[Group]]:
    """Divide rows into groups, and groups into sweeps over the blocks whose states stay below ``room`` bytes.

    A sweep holds at least one group, and a group at least one span, however little room there is.

    Args:
        stops: for every request how many tokens of its prompt are computed.
        vector_bytes: of one token's residual stream.
        tails: rows may own their last tokens only.
    """
    sweeps: list[list[Group]] = [[]]
    sweep_bytes = 0
    for replacement, stop in zip(replacements, stops):
        spans = replacement.spans
        if not spans:
            continue
        # Rows that own all tokens waste none, so a group has as many as fill a call once all boundaries have passed.
        best_size = group_size(stop, n_blocks, call_cost) if tails else policy.tokens // (stop * n_blocks)
        most_in_room = room // (n_blocks * stop * vector_bytes)
        for first, last in even_pieces(len(spans), max(1, min(best_size, most_in_room))):
            start = spans[first].start if tails else 0
            # Each span has one row for every boundary before the last.
            group_bytes = (last - first) * n_blocks * (stop - start) * vector_bytes
            if sweeps[-1] and sweep_bytes + group_bytes > room:
                sweeps.append([])
                sweep_bytes = 0
            sweeps[-1].append(Group(replacement, spans[first:last], start, stop))
            sweep_bytes += group_bytes
    return sweeps


class ReplacedRows:
    """All replaced rows of one batch, sweep after sweep: for each, all blocks in order, then ``land``."""

    def __init__(
        self,
        anatomy: Anatomy,
        batch: Batch,
        replacements: Sequence[Replacement],
        policy: CallPolicy,
        reader: Reader,
        *,
        tails: bool,
        room: int | None = None,
    ) -> None:
        self._anatomy = anatomy
        self._batch = batch
        self._policy = policy
        self._tails = tails
        self._reader = reader
        device = batch.ids_BT.device
        # Where results depend on a prompt's length (rotary tables that do), a prompt cannot be cut after its last
        # interesting token.
        stops = [
            batch.lengths[replacement.prompt] if anatomy.equal_lengths else max(_SHORTEST, replacement.stop)
            for replacement in replacements
        ]
        self._sweeps = plan_sweeps(
            replacements,
            stops,
            n_blocks=anatomy.n_blocks,
            vector_bytes=anatomy.width * (anatomy.dtype or torch.float32).itemsize,
            policy=policy,
            tails=tails,
            call_cost=_CALL_COST_ACCELERATOR if is_accelerator(device) else _CALL_COST,
            room=room or default_room(device),
        )
        self._done = 0
        self._prompts: list[list[_GroupRows]] = []

    @property
    def sweeps(self) -> int:
        """How many times the blocks must be visited, at least once."""
        return len(self._sweeps)

    def advance(self, block: nn.Module, index: int) -> None:
        """Move all rows of this sweep over one block; a sweep begins with block 0."""
        if index == 0:
            by_prompt = groupby(self._sweeps[self._done], key=lambda group: (id(group.replacement), group.stop))
            self._prompts = [self._begin(list(groups)) for _, groups in by_prompt]
        for first, *later in self._prompts:
            first.advance(block, index, lends=self._tails)
            for rows in later:
                rows.advance(block, index, donor=first if self._tails else None)

    def land(self, baseline_BTD: Tensor) -> Iterator[ReplacedStates]:
        """Yield the final states of this sweep's groups, one after another; each is let go before the next."""
        self._done += 1
        while self._prompts:
            groups = self._prompts.pop(0)
            while groups:
                rows = groups.pop(0)
                if rows.group.spans:
                    yield rows.states(baseline_BTD, self._reader)

    def _begin(self, groups: Sequence[Group]) -> list[_GroupRows]:
        """Begin the rows of one prompt; the first group owns all tokens, and its control lends to the others."""
        replacement = groups[0].replacement
        stop = groups[0].stop
        prompt = slice(replacement.prompt, replacement.prompt + 1)
        replay = self._anatomy.replay(self._batch.ids_BT[prompt, :stop])
        # Where the group that owns all tokens had an earlier sweep, a control alone takes its place and lends.
        lending = [Group(replacement, (), 0, stop)] if groups[0].start else []
        return [_GroupRows(group, replay, self._policy, self._anatomy.sites) for group in (*lending, *groups)]


class _GroupRows(Slots):
    """The rows of one group, in slots [1 + boundaries · spans]: the control, then each boundary's spans in turn."""

    def __init__(self, group: Group, replay: Replay, policy: CallPolicy, sites: Mapping[str, Site]) -> None:
        self._n_blocks = len(replay.recording.blocks)
        super().__init__(replay, policy, 1 + self._n_blocks * len(group.spans), start=group.start, sites=sites)
        self.group = group
        self.state[CONTROL] = replay.recording.resid0_BTD[:, group.start :]
        token_T = torch.arange(group.start, replay.tokens, device=self.state.device)
        marks = [(token_T >= span.start) & (token_T < span.stop) for span in group.spans]
        self._marks_ST = torch.stack(marks) if marks else token_T.new_zeros(0, len(token_T), dtype=torch.bool)

    def advance(self, block: nn.Module, index: int, *, lends: bool = False, donor: Slots | None = None) -> None:
        """Move the control and all rows replaced at the boundaries 0 … index over one block."""
        part_masks = self._spawn(index)
        active = range(1 + (index + 1) * len(self.group.spans))
        # Before the replaced tokens no row differs from the control, so it lends its keys and values to all of them.
        prefix = None if donor is None else donor.lend_prefix([CONTROL] * len(active), 0, self.group.start)
        instead = {part: (mask, self._values(index)[None]) for part, mask in part_masks.items()}
        for _ in self.run(block, index, active, prefix=prefix, lends=(CONTROL,) if lends else (), instead=instead):
            pass  # rows are read only once they have landed

    def states(self, baseline_BTD: Tensor, reader: Reader) -> ReplacedStates:
        """Return the final states, by boundary and span."""
        group = self.group
        return ReplacedStates(
            reader=reader,
            replacement=group.replacement,
            spans=group.spans,
            start=group.start,
            control_ND=self.state[CONTROL, 0],
            baseline_ND=baseline_BTD[group.replacement.prompt, group.start : group.stop],
            rows_LSND=self.state[1:, 0].unflatten(0, (self._n_blocks, len(group.spans))),
        )

    def _spawn(self, boundary: int) -> dict[str, Tensor]:
        """Begin the rows of a boundary as copies of the control, with their span's stream replaced.

        A part's contribution comes only when its block runs: returned is where it is to be replaced, as the part with
        a mask [rows, 1, tokens] that is True in the new rows alone.
        """
        size = len(self.group.spans)
        part = self.group.replacement.part
        first = 1 + boundary * size
        new_slots = slice(first, first + size)
        self.copy(CONTROL, new_slots)
        # The rows of earlier boundaries are before these; later ones still hold nothing and are not run.
        if part == "block":
            in_span = self._marks_ST[..., None]
            self.state[new_slots, 0] = torch.where(in_span, self._values(boundary), self.state[new_slots, 0])
            return {}
        earlier_rows = self._marks_ST.new_zeros(first, 1, self._marks_ST.shape[1])
        return {part: torch.cat([earlier_rows, self._marks_ST[:, None]])}

    def _values(self, boundary: int) -> Tensor:
        """Return the values to put in at a boundary, [own tokens, width]; tokens beyond the values are in no span."""
        values = self.group.replacement.values_LTD[boundary, self.group.start :].to(self.state)
        missing = self.state.shape[2] - len(values)
        return torch.nn.functional.pad(values, (0, 0, 0, missing)) if missing > 0 else values[: self.state.shape[2]]
