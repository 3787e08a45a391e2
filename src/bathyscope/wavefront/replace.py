"""Replaced rows: the residual stream, or a part's contribution, replaced at one boundary and some tokens.

Everything after it is recomputed. The row of boundary b and a span of tokens begins at b and owns the tokens from the
span's first on; whatever comes before either is the plain forward's. Rows of neighbouring spans, mostly single tokens,
form a *group*, which owns the tokens from the group's first on, so that all its rows have one shape and run in common
calls. The rows of the first group of a prompt own all tokens, and its control lends keys and values to the groups that
begin later. Families that cannot lend them get groups that own all tokens.

Every prompt is recorded again without pads and without the tokens after the last that anybody looks at.
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
from bathyscope.wavefront.rows import Replacement
from bathyscope.wavefront.slots import Slots

# what a call costs beside its tokens, in tokens: on one CPU core a block of width 256 takes 0.4 ms and 11 µs a token,
# and lending keys and values half as much again; an accelerator is idle below some thousands
_CALL_COST = 50
_CALL_COST_ACCELERATOR = 4000
_ROOM = 256 << 20
_ACCELERATOR_FACTOR = 16
# families take a forward of a single token for a step of generation
_SHORTEST = 2


@dataclass(frozen=True)
class Group:
    """Rows of one request: replaced at ``spans``, owning the tokens ``start`` … ``stop`` − 1."""

    replacement: Replacement
    spans: Sequence[range]
    start: int
    stop: int


def default_room(device: torch.device) -> int:
    """Bytes that the states of replaced rows may take at once."""
    return _ROOM * (_ACCELERATOR_FACTOR if is_accelerator(device) else 1)


def group_size(own: int, n_blocks: int, call_cost: float) -> int:
    """How many neighbouring tokens to replace in one group of tails.

    Beside the tokens that must be computed, groups of g tokens cost, in blocks × tokens: L · ``call_cost`` and a
    control of own/2 tokens on average for each of the own/g groups, and g(g−1)/2 clean tokens for each group and
    each of the L(L+1)/2 steps that its rows take. Groups of one size cost least, and this is the best size: 3 for
    39 tokens and 24 blocks on a CPU, which computes 9 % more than must be.

    Args:
        own: tokens of the prompt that rows compute.
        call_cost: what a call costs beside its tokens, in tokens.
    """
    return max(1, round(2 * math.sqrt((call_cost + own / 2) / (n_blocks + 1))))


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
    """Groups of rows, in as many sweeps over the blocks as it takes to keep their states below ``room`` bytes.

    A sweep holds one group at least, and a group one span, however little room there is.

    Args:
        stops: for every request how many tokens of its prompt are computed.
        vector_bytes: of one token's residual stream.
        tails: rows may own their last tokens only.
    """
    sweeps: list[list[Group]] = [[]]
    used = 0
    for one, stop in zip(replacements, stops):
        if not one.spans:
            continue
        row_bytes = n_blocks * stop * vector_bytes
        # rows that own all tokens waste none: as many as fill a call once all boundaries have passed
        wanted = group_size(stop, n_blocks, call_cost) if tails else policy.tokens // (stop * n_blocks)
        for first, last in even_pieces(len(one.spans), max(1, min(wanted, room // row_bytes))):
            start = one.spans[first].start if tails else 0
            # of all states, for every boundary before the last
            size = (last - first) * n_blocks * (stop - start) * vector_bytes
            if sweeps[-1] and used + size > room:
                sweeps.append([])
                used = 0
            sweeps[-1].append(Group(one, one.spans[first:last], start, stop))
            used += size
    return sweeps


class ReplacedRows:
    """All replaced rows of one batch, sweep after sweep: for each, all blocks in order, then ``land``."""

    def __init__(
        self,
        anatomy: Anatomy,
        batch: Batch,
        replacements: Sequence[Replacement],
        policy: CallPolicy,
        *,
        tails: bool,
        room: int | None = None,
    ) -> None:
        self._anatomy, self._batch, self._policy, self._tails = anatomy, batch, policy, tails
        whole, device = anatomy.equal_lengths, batch.ids_BT.device
        stops = [batch.lengths[one.prompt] if whole else max(_SHORTEST, one.stop) for one in replacements]
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
        """Moves all rows of this sweep over one block; a sweep begins with block 0."""
        if index == 0:
            groups = groupby(self._sweeps[self._done], key=lambda g: (id(g.replacement), g.stop))
            self._prompts = [self._begin(list(own)) for _, own in groups]
        for first, *later in self._prompts:
            first.advance(block, index, lends=self._tails)
            for rows in later:
                rows.advance(block, index, donor=first if self._tails else None)

    def land(self, baseline_BTD: Tensor) -> Iterator[ReplacedStates]:
        """The final states of this sweep's groups, one after another; each is let go before the next."""
        self._done += 1
        while self._prompts:
            groups = self._prompts.pop(0)
            while groups:
                rows = groups.pop(0)
                if rows.group.spans:
                    yield rows.states(baseline_BTD)

    def _begin(self, groups: Sequence[Group]) -> list[_GroupRows]:
        """The rows of one prompt. The first group owns all tokens: its control lends keys and values to the others."""
        one, stop = groups[0].replacement, groups[0].stop
        replay = self._anatomy.replay(self._batch.ids_BT[one.prompt : one.prompt + 1, :stop])
        # where the groups that own all tokens had an earlier sweep, a control alone takes their place
        lending = [Group(one, (), 0, stop)] if groups[0].start else []
        return [_GroupRows(group, replay, self._policy, self._anatomy.sites) for group in (*lending, *groups)]


class _GroupRows(Slots):
    """Rows that are replaced at neighbouring spans, in slots [1 + boundaries · spans]."""

    def __init__(self, group: Group, replay: Replay, policy: CallPolicy, sites: Mapping[str, Site]) -> None:
        self._n_blocks = len(replay.recording.blocks)
        super().__init__(replay, policy, 1 + self._n_blocks * len(group.spans), start=group.start, sites=sites)
        self.group = group
        self.state[0] = replay.recording.resid0_BTD[:, group.start :]
        token_T = torch.arange(group.start, replay.tokens, device=self.state.device)
        marks = [(token_T >= span.start) & (token_T < span.stop) for span in group.spans]
        self._marks_ST = torch.stack(marks) if marks else token_T.new_zeros(0, len(token_T), dtype=torch.bool)

    def advance(self, block: nn.Module, index: int, *, lends: bool = False, donor: Slots | None = None) -> None:
        """Moves the control and all rows replaced at the boundaries 0 … index over one block."""
        marked = self._spawn(index)
        active = range(1 + (index + 1) * len(self.group.spans))
        lender = None if donor is None else donor.lender([0] * len(active), 0, self.group.start)
        instead = {part: (mask, self._values(index)[None]) for part, mask in marked.items()}
        for _ in self.run(block, index, active, lender=lender, lends=(0,) if lends else (), instead=instead):
            pass  # nobody looks at rows before they land

    def states(self, baseline_BTD: Tensor) -> ReplacedStates:
        """The final states, by boundary and span."""
        one, spans, start = self.group.replacement, self.group.spans, self.group.start
        return ReplacedStates(
            replacement=one,
            spans=spans,
            start=start,
            control_ND=self.state[0, 0],
            baseline_ND=baseline_BTD[one.prompt, start : self.group.stop],
            rows_LSND=self.state[1:, 0].unflatten(0, (self._n_blocks, len(spans))),
        )

    def _spawn(self, boundary: int) -> dict[str, Tensor]:
        """Rows begin as copies of the control, with their span's stream replaced.

        Of a part nothing is replaced yet: given back is where the new rows' contribution will be, [rows, 1, tokens].
        """
        size, part = len(self.group.spans), self.group.replacement.part
        first = 1 + boundary * size
        own = slice(first, first + size)
        self.copy(0, own)
        if part == "block":
            self.state[own, 0] = torch.where(self._marks_ST[..., None], self._values(boundary), self.state[own, 0])
            return {}
        before = self._marks_ST.new_zeros(first, 1, self._marks_ST.shape[1])
        return {part: torch.cat([before, self._marks_ST[:, None]])}

    def _values(self, boundary: int) -> Tensor:
        """What is put in at this boundary, [own tokens, width]; tokens beyond those given are in no span."""
        given = self.group.replacement.values_LTD[boundary, self.group.start :].to(self.state)
        missing = self.state.shape[2] - len(given)
        return torch.nn.functional.pad(given, (0, 0, 0, missing)) if missing > 0 else given[: self.state.shape[2]]
