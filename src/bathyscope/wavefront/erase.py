"""Erasure rows: the residual stream replaced at one boundary and one token, everything after it recomputed.

The row of boundary b and token t begins at b and owns the tokens from t on; whatever comes before either is the
plain forward's. Rows of neighbouring tokens form a *group*, which owns the tokens from the group's first on, so
that all its rows have one shape and run in common calls. The rows of the first group of a prompt own all tokens,
and its control lends keys and values to the groups that begin later. Families that cannot lend them get groups
that own all tokens.

Every prompt is recorded again without pads and without the tokens after the last that anybody looks at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.replay import Replay
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy, even_pieces
from bathyscope.wavefront.probe import ErasedStates
from bathyscope.wavefront.rows import Erasure
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
    """Rows of one erasure: erased at ``tokens``, owning the tokens ``start`` … ``stop`` − 1.

    Args:
        bytes: of all its states, for every boundary before the last.
    """

    erasure: Erasure
    tokens: range
    start: int
    stop: int
    bytes: int


def group_size(own: int, n_blocks: int, call_cost: float) -> int:
    """How many neighbouring tokens to erase in one group of tails.

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
    erasures: Sequence[Erasure],
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

    A sweep holds one group at least, and a group one token, however little room there is.

    Args:
        stops: for every erasure how many tokens of its prompt are computed.
        vector_bytes: of one token's residual stream.
        tails: rows may own their last tokens only.
        call_cost: what a call costs beside its tokens, in tokens.
    """
    sweeps: list[list[Group]] = [[]]
    used = 0
    for erasure, stop in zip(erasures, stops):
        row_bytes = n_blocks * stop * vector_bytes
        # rows that own all tokens waste none: as many as fill a call once all boundaries have passed
        wanted = group_size(stop, n_blocks, call_cost) if tails else policy.tokens // (stop * n_blocks)
        for first, last in even_pieces(erasure.tokens, max(1, min(wanted, room // row_bytes))):
            start = first if tails else 0
            size = (last - first) * n_blocks * (stop - start) * vector_bytes
            if sweeps[-1] and used + size > room:
                sweeps.append([])
                used = 0
            sweeps[-1].append(Group(erasure, range(first, last), start, stop, size))
            used += size
    return sweeps


class ErasureRows:
    """All erasure rows of one batch, sweep after sweep: for each, all blocks in order, then ``land``.

    Args:
        tails: tail rows may share keys and values.
        room: bytes that states may take at once; None = by device.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        batch: Batch,
        erasures: Sequence[Erasure],
        policy: CallPolicy,
        *,
        tails: bool,
        room: int | None = None,
    ) -> None:
        self._anatomy, self._batch, self._policy, self._tails = anatomy, batch, policy, tails
        on_cpu = batch.ids_BT.device.type == "cpu"
        whole = anatomy.equal_lengths
        stops = [batch.lengths[e.prompt] if whole else max(_SHORTEST, e.stop) for e in erasures]
        self._sweeps = plan_sweeps(
            erasures,
            stops,
            n_blocks=anatomy.n_blocks,
            vector_bytes=anatomy.width * (anatomy.dtype or torch.float32).itemsize,
            policy=policy,
            tails=tails,
            call_cost=_CALL_COST if on_cpu else _CALL_COST_ACCELERATOR,
            room=room or _ROOM * (1 if on_cpu else _ACCELERATOR_FACTOR),
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
            groups = groupby(self._sweeps[self._done], key=lambda g: (id(g.erasure), g.stop))
            self._prompts = [self._begin(list(own)) for _, own in groups]
        for first, *later in self._prompts:
            first.advance(block, index, lends=self._tails)
            for rows in later:
                rows.advance(block, index, donor=first if self._tails else None)

    def land(self, baseline_BTD: Tensor) -> Iterator[ErasedStates]:
        """The final states of this sweep's groups, one after another; each is let go before the next.

        Args:
            baseline_BTD: the plain forward's h_L.
        """
        self._done += 1
        while self._prompts:
            groups = self._prompts.pop(0)
            while groups:
                rows = groups.pop(0)
                if rows.tokens:
                    yield rows.states(baseline_BTD)

    def _begin(self, groups: Sequence[Group]) -> list[_GroupRows]:
        """The rows of one prompt. The first group owns all tokens: its control lends keys and values to the others."""
        erasure, stop = groups[0].erasure, groups[0].stop
        replay = self._anatomy.replay(self._batch.ids_BT[erasure.prompt : erasure.prompt + 1, :stop])
        rows = [_GroupRows(g.erasure, g.tokens, g.start, replay, self._policy) for g in groups]
        # where the groups that own all tokens had an earlier sweep, a control alone takes their place
        return [_GroupRows(erasure, range(0), 0, replay, self._policy), *rows] if groups[0].start else rows


class _GroupRows(Slots):
    """Rows that are erased at neighbouring tokens, in slots [1 + boundaries · tokens]."""

    def __init__(self, erasure: Erasure, tokens: range, start: int, replay: Replay, policy: CallPolicy) -> None:
        self._n_blocks = len(replay.recording.blocks)
        super().__init__(replay, policy, 1 + self._n_blocks * len(tokens), start=start)
        self.tokens, self.start, self._erasure = tokens, start, erasure
        self.state[0] = replay.recording.resid0_BTD[:, start:]

    def advance(self, block: nn.Module, index: int, *, lends: bool = False, donor: Slots | None = None) -> None:
        """Moves the control and all rows erased at h_0 … h_index over one block."""
        self._spawn(index)
        active = range(1 + (index + 1) * len(self.tokens))
        lender = None if donor is None else donor.lender([0] * len(active), 0, self.start)
        for _ in self.run(block, index, active, lender=lender, lends=int(lends)):
            pass  # nobody looks at rows before they land

    def states(self, baseline_BTD: Tensor) -> ErasedStates:
        """The final states, by boundary and token."""
        prompt, stop = self._erasure.prompt, self.start + self.state.shape[2]
        return ErasedStates(
            erasure=self._erasure,
            tokens=self.tokens,
            start=self.start,
            control_ND=self.state[0, 0],
            baseline_ND=baseline_BTD[prompt, self.start : stop],
            rows_LTND=self.state[1:, 0].unflatten(0, (self._n_blocks, len(self.tokens))),
        )

    def _spawn(self, boundary: int) -> None:
        """Rows begin as copies of the control, each with its own token replaced."""
        size = len(self.tokens)
        first = 1 + boundary * size
        self.copy(0, slice(first, first + size))
        each = torch.arange(size, device=self.state.device)
        own = each + (self.tokens.start - self.start)
        self.state[first + each, 0, own] = self._erasure.values_LD[boundary].to(self.state)
