"""Rows of one shape that run a block at a time: what full rows, tails, replaced and direct rows have in common.

Rows live in slots of one buffer; slot 0 is the control, in which nothing is changed. A visit of a block takes some of
the slots, in calls of a good size, and writes back what comes out once whoever asked for it has seen it.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.sites import replaced, tapped
from bathyscope.wavefront.calls import CallPolicy, CallResult, even_pieces, halves, while_memory_lasts
from bathyscope.wavefront.places import at, index


@dataclass(frozen=True)
class Lender:
    """Keys and values of one block that some rows lend to tails of one prompt.

    Args:
        keys, values: [rows, batch, heads, tokens, head width]; None where the block looked at none.
        donors: for every tail the row that lends to it.
        prompt, start: whose tokens 0 … start − 1 are lent.
        attends: the block looks at keys and values, so that tails need a mask.
    """

    keys: Tensor | None
    values: Tensor | None
    donors: Sequence[int]
    prompt: int
    start: int
    attends: bool

    def cache(self, tails: Sequence[int]) -> CaptureCache:
        """The cache for a call of some tails, given by their places in ``donors``."""
        if self.keys is None or self.values is None:
            return CaptureCache(start=self.start)
        rows = [self.donors[tail] for tail in tails]
        return CaptureCache(self._of(self.keys, rows), self._of(self.values, rows), self.start)

    def _of(self, kept: Tensor, rows: list[int]) -> Tensor:
        if len(set(rows)) == 1:
            return kept[rows[0], self.prompt, :, : self.start].expand(len(rows), -1, -1, -1)
        return kept[at(rows, kept.device), self.prompt, :, : self.start]


class Slots:
    """Rows [slots, batch, tokens, width] of one recorded batch, and what blocks passed on beside their stream.

    Args:
        slots: how many; what they hold is for whoever uses them to say.
        prompt: the only prompt that rows are of; None = each has all prompts of the batch.
        start: the first token that rows own; tokens before it are lent.
        sites: where contributions are tapped and replaced.
    """

    def __init__(
        self,
        replay: Replay,
        policy: CallPolicy,
        slots: int,
        *,
        prompt: int | None = None,
        start: int = 0,
        sites: Mapping[str, Site] | None = None,
    ) -> None:
        resid0_BTD = replay.recording.resid0_BTD
        self._replay, self._policy, self._sites, self._start = replay, policy, sites or {}, start
        prompts = range(replay.batch) if prompt is None else [prompt]
        self._prompts_B = index(prompts, resid0_BTD.device)
        self.state = resid0_BTD.new_empty(slots, len(prompts), replay.tokens - start, resid0_BTD.shape[-1])
        self._passed: State = {}
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._lenders: Sequence[int] = ()
        self._attends = False

    @property
    def control(self) -> Tensor:
        """The control's residual stream [batch, tokens, width]."""
        return self.state[0]

    @property
    def control_passed(self) -> State:
        """What blocks have passed on in the control, [batch, …] each."""
        return {key: tuple(t[0] for t in tensors) for key, tensors in self._passed.items()}

    def receive(self, passed: State) -> None:
        """Every slot gets what blocks have passed on so far, given as [batch of the recording, …] each."""
        slots, own = len(self.state), self._prompts_B
        self._passed = {key: tuple(_repeated(t[own][None], slots) for t in ts) for key, ts in passed.items()}

    def copy(self, source: int, target: int | slice) -> None:
        """The target slots begin with what the source holds."""
        for buffer in (self.state, *(t for tensors in self._passed.values() for t in tensors)):
            buffer[target] = buffer[source]

    def run(
        self,
        block: nn.Module,
        index: int,
        slots: Sequence[int],
        *,
        lender: Lender | None = None,
        lends: Collection[int] = (),
        taps: Collection[str] = (),
        instead: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> Iterator[CallResult]:
        """Moves some slots over a block, a call at a time; each is written back when its result has been looked at.

        Args:
            slots: in the order in which they are called; the control, if it is among them, first.
            lender: for tails, their keys and values before ``start``.
            lends: those of the slots whose keys and values are kept for ``lender``.
            taps: parts whose contributions are read.
            instead: part → True at the tokens [rows, batch, tokens] where it adds something else than its contribution,
                and what: [batch, tokens, width], or the number 0 for nothing.
        """
        own = self.state[at(slots, self.state.device)]
        control_before = own[0].clone()  # its slot is written back while later calls run
        control_after = control_before
        known = tuple(self._passed)  # what an earlier call of this visit passes on is for later blocks
        if lends:
            self._kept, self._lenders, self._attends = [], [slot for slot in slots if slot in lends], False
        tokens = own.shape[1] * own.shape[2]
        pending = deque(even_pieces(len(slots), max(1, self._policy.tokens // tokens)))
        while pending:
            first, last = pending.popleft()
            extra = slots[0] == 0 and first > 0 and self._policy.control_in_every_call
            picked = [0, *range(first, last)] if extra else list(range(first, last))
            before = own[first:last]
            given = torch.cat([control_before[None], before]) if extra else before
            passed = self._passed_to([slots[i] for i in picked], known)
            cache = lender.cache(picked) if lender is not None else CaptureCache() if lends else None
            out = None
            # nothing of a call that fails may be held on to while it is made again, its error least of all
            with (
                while_memory_lasts(),
                self._exchanged(block, instead or {}, picked),
                tapped(block, {part: self._sites[part] for part in taps}) as taken,
            ):
                out = self._replay.run(
                    block,
                    index,
                    given.flatten(0, 1),
                    self._prompts_B.repeat(len(given)),
                    cache=cache,
                    start=self._start,
                    attends=lender is None or lender.attends,
                    state=passed,
                ).view(given.shape)
            if out is None:
                del given, passed, cache
                self._policy.shrink(last - first, tokens, self.state.device)
                pending = deque(halves([(first, last), *pending], max(1, self._policy.tokens // tokens)))
                continue
            rows = slice(1, None) if extra else slice(None)
            self._keep_passed(slots[first:last], passed, rows)
            if lender is None and cache is not None:
                lending = [place for place, slot in enumerate(slots[first:last]) if slot in lends]
                self._keep_lent(index, cache, rows, lending, last - first)
            if extra or first == 0:
                control_after = out[0]
            with_control = extra or (first == 0 and slots[0] == 0)
            parts = {part: value.to(out.device).view(given.shape) for part, value in taken.items()}
            yield CallResult(
                slots[first:last],
                before,
                out[rows],
                control_before,
                control_after,
                {part: value[rows] for part, value in parts.items()},
                {part: value[0] for part, value in parts.items()} if with_control else {},
            )
            self.state[at(slots[first:last], self.state.device)] = out[rows]

    def lender(self, donors: Sequence[int], prompt: int, start: int) -> Lender:
        """What the slots ``donors``, one for each tail, lend of the block that has run last with ``lends``."""
        place = {slot: i for i, slot in enumerate(self._lenders)}
        if len(self._kept) > 1:
            keys, values = zip(*self._kept)
            self._kept = [(torch.cat(keys), torch.cat(values))]
        kept = self._kept[0] if self._kept else (None, None)
        return Lender(kept[0], kept[1], [place[donor] for donor in donors], prompt, start, self._attends)

    def _exchanged(
        self, block: nn.Module, instead: Mapping[str, tuple[Tensor, Tensor]], picked: list[int]
    ) -> AbstractContextManager[None]:
        added, masks = {}, {}
        for part, (mask, value) in instead.items():
            own = mask[picked].flatten(0, 1)
            if bool(own.any()):
                masks[part] = own
                added[part] = value.expand(len(picked), -1, -1, -1).flatten(0, 1) if value.ndim else value
        return replaced(block, self._sites, added, masks)

    def _passed_to(self, slots: Sequence[int], known: Sequence[object]) -> State:
        """What the slots' rows take into a call, [rows · batch, …] each."""
        own = at(slots, self.state.device)
        return {key: tuple(t[own].flatten(0, 1) for t in self._passed[key]) for key in known}

    def _keep_passed(self, slots: Sequence[int], passed: State, rows: slice) -> None:
        """Keeps what the rows of a call, behind an extra control, pass on."""
        own = at(slots, self.state.device)
        for key, tensors in passed.items():
            split = [t.unflatten(0, (-1, len(self._prompts_B))) for t in tensors]
            if key not in self._passed:
                # a row that skips this block everywhere still lends later blocks what it makes of the real stream
                self._passed[key] = tuple(_repeated(t[:1], len(self.state)) for t in split)
            for buffer, value in zip(self._passed[key], split):
                buffer[own] = value[rows]

    def _keep_lent(self, index: int, cache: CaptureCache, rows: slice, lending: Sequence[int], called: int) -> None:
        """Keeps keys and values of some of the ``called`` rows of a call, and lets go of the others'."""
        self._attends |= self._replay.attends(index, cache)
        if cache.keys is None or cache.values is None or not lending:
            return
        own = at(lending, cache.keys.device)
        keys, values = (t.unflatten(0, (-1, len(self._prompts_B)))[rows][own] for t in (cache.keys, cache.values))
        if isinstance(own, slice) and len(lending) < called:  # a view would hold on to all of them
            keys, values = keys.clone(), values.clone()
        self._kept.append((keys, values))


def _repeated(one: Tensor, slots: int) -> Tensor:
    """[1, …] as [slots, …], every slot with memory of its own."""
    return one.repeat(slots, *[1] * (one.ndim - 1))
