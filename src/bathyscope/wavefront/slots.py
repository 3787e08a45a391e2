"""Rows of one shape that run one block at a time: what full rows, tails, replaced and direct rows have in common.

A *slot* is a place in one buffer that holds the residual stream of one row. Slot 0 holds the *control*: a row in which
nothing is changed, but which runs in the same calls as the changed rows. A changed row is compared with the control,
not with the plain forward, because a matrix product rounds differently in a batch of another size: what rounding does
to both cancels, and what the control differs from the plain forward is the noise floor of the survey.

A *visit* of a block (``Slots.run``) takes some of the slots, divides them into calls of a good size, and writes each
result back to its slots after the caller has seen it. To the block, the rows of a call are further prompts: [rows,
batch, tokens, width] is flattened to [rows · batch, tokens, width], and the arguments that were recorded for each
prompt are repeated for every row.

Suffixes name the axes of a tensor: B prompts of the batch, T tokens, D width. Rows come first: [rows, batch, tokens,
width].
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
from bathyscope.wavefront.prefix import LentPrefix, LentRows

CONTROL = 0
"""The slot of the control row, in which nothing is changed."""


@dataclass(frozen=True)
class _Call:
    """One call of a block, on a range of the visited slots.

    Args:
        slots: the slots that are written back.
        picked: the rows that run, by their places among the visited slots; the first is an extra control if one rides
            along.
        control_rides_along: the control runs once more, ahead of the slots.
    """

    slots: Sequence[int]
    picked: list[int]
    control_rides_along: bool

    @property
    def own_rows(self) -> slice:
        """The rows of the call that belong to ``slots``, without an extra control."""
        return slice(1, None) if self.control_rides_along else slice(None)


@dataclass(frozen=True)
class _Output:
    """What one call of a block returned.

    Args:
        stream: [rows of the call, batch, tokens, width].
        passed: what the block passed on next to the stream, [rows · batch, …] each.
        cache: keys and values that the block computed, or None.
        parts: tapped contributions, each shaped like the stream.
    """

    stream: Tensor
    passed: State
    cache: CaptureCache | None
    parts: Mapping[str, Tensor]


class Slots:
    """The residual streams [slots, batch, tokens, width] of one recorded batch, with what blocks pass on next to them.

    Some families hand tensors other than the stream from block to block (keys and values that later blocks share, for
    instance). They belong to a row's history as much as its stream does, so every slot has its own.

    Args:
        slots: how many slots; the subclass decides which row a slot holds.
        prompt: the only prompt that rows have; None = each row has all prompts of the batch.
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
        self._replay = replay
        self._policy = policy
        self._sites = sites or {}
        self._start = start
        resid0_BTD = replay.recording.resid0_BTD
        prompts = range(replay.batch) if prompt is None else [prompt]
        self._prompts_B = index(prompts, resid0_BTD.device)
        self.state = resid0_BTD.new_empty(slots, len(prompts), replay.tokens - start, resid0_BTD.shape[-1])
        self._passed: State = {}
        self._lent = LentRows()

    @property
    def control(self) -> Tensor:
        """The control's residual stream [batch, tokens, width]."""
        return self.state[CONTROL]

    @property
    def control_passed(self) -> State:
        """What blocks have passed on in the control, [batch, …] each."""
        return {key: tuple(t[CONTROL] for t in tensors) for key, tensors in self._passed.items()}

    def receive(self, passed: State) -> None:
        """Give every slot what blocks have passed on so far, [batch of the recording, …] each.

        Tails get it of all tokens: before a tail parts from the control, its history is the control's.
        """
        n_slots = len(self.state)
        self._passed = {
            key: tuple(_repeat_in_slots(t[self._prompts_B][None], n_slots) for t in tensors)
            for key, tensors in passed.items()
        }

    def copy(self, source: int, target: int | slice) -> None:
        """Let the target slots begin with everything that the source slot holds."""
        for buffer in (self.state, *(t for tensors in self._passed.values() for t in tensors)):
            buffer[target] = buffer[source]

    def run(
        self,
        block: nn.Module,
        index: int,
        slots: Sequence[int],
        *,
        prefix: LentPrefix | None = None,
        lends: Collection[int] = (),
        taps: Collection[str] = (),
        instead: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> Iterator[CallResult]:
        """Move some slots over a block, one call at a time; each is written back after its result has been seen.

        Args:
            slots: in the order in which they are called; the control, if it is among them, first.
            prefix: for tails, the keys and values of the tokens before ``start``.
            lends: those of the slots whose keys and values are stored for ``lend_prefix``.
            taps: parts whose contributions are read.
            instead: part → where it adds another value than its contribution, True in a mask [rows, batch, tokens],
                and that value: [batch, tokens, width], or the number 0 for nothing.
        """
        # A view of the buffer where the slots are neighbours: each call's input must be shown before it is overwritten.
        stream = self.state[at(slots, self.state.device)]
        # The control's slot is written back after the first call, so later calls need a copy of its input. Rows that
        # catch up run without the control; then these are simply the first row, and nobody reads them.
        control_before = stream[0].clone()
        control_after = control_before
        # The first call of a visit may add tensors to those passed on. They are for later blocks, so the other calls
        # of this visit do not take them.
        passed_keys = tuple(self._passed)
        if lends:
            self._lent = LentRows([slot for slot in slots if slot in lends])
        row_tokens = stream.shape[1] * stream.shape[2]
        pending = deque(even_pieces(len(slots), max(1, self._policy.in_call // row_tokens)))
        while pending:
            first, last = pending.popleft()
            # Below float32 a matrix product rounds differently for different batch sizes, so each call computes the
            # control again as its row 0, and every changed row is compared with a control from the same product. In
            # float32 products of these sizes agree to rounding, and the control of the first call serves all.
            # This is so for what probes see of single blocks. Final states are compared with slot 0, the control of
            # the first call; below float32 the noise floor cannot show how the controls of later calls differ from it.
            control_rides_along = slots[0] == CONTROL and first > 0 and self._policy.control_in_every_call
            # Places among the visited slots; the control, which comes first, is at place 0.
            picked = [0, *range(first, last)] if control_rides_along else list(range(first, last))
            call = _Call(slots[first:last], picked, control_rides_along)
            before = stream[first:last]
            resid = torch.cat([control_before[None], before]) if control_rides_along else before
            passed = self._gather_passed([slots[place] for place in picked], passed_keys)
            cache = prefix.cache(picked) if prefix is not None else CaptureCache() if lends else None
            output = self._call(
                block,
                index,
                call,
                resid,
                passed,
                cache,
                attends=prefix is None or prefix.attends,
                taps=taps,
                instead=instead or {},
            )
            # The block has run: its inputs are released before the next allocation, above all when memory is short.
            del resid, passed, cache
            if output is None:
                # No slot has changed yet, so the same rows wait again, in smaller calls. A riding control is not
                # counted: it rides along in the smaller calls too.
                self._policy.shrink(last - first, row_tokens, self.state.device)
                pending = deque(halves([(first, last), *pending], max(1, self._policy.in_call // row_tokens)))
                continue
            self._store_passed(call, output.passed)
            if prefix is None and output.cache is not None:
                self._store_lent(index, call, output.cache)
            if control_rides_along or first == 0:
                control_after = output.stream[0]
            has_control = control_rides_along or (first == 0 and slots[0] == CONTROL)
            after = output.stream[call.own_rows]
            yield CallResult(
                slots=call.slots,
                before=before,
                after=after,
                control_before=control_before,
                control_after=control_after,
                parts={part: values[call.own_rows] for part, values in output.parts.items()},
                control_parts={part: values[0] for part, values in output.parts.items()} if has_control else {},
            )
            self.state[at(call.slots, self.state.device)] = after

    def lend_prefix(self, donors: Sequence[int], prompt: int, start: int) -> LentPrefix:
        """Return what donors, given by their slots for each tail, lend of the block that ran last with ``lends``."""
        return self._lent.prefix(donors, prompt, start)

    def _call(
        self,
        block: nn.Module,
        index: int,
        call: _Call,
        resid: Tensor,
        passed: State,
        cache: CaptureCache | None,
        *,
        attends: bool,
        taps: Collection[str],
        instead: Mapping[str, tuple[Tensor, Tensor]],
    ) -> _Output | None:
        """Run the block on rows [rows, batch, tokens, width]; None if it ran out of memory."""
        out = None
        # Nothing of a failed call may be held while it is repeated, least of all its error and the frames it refers to.
        with (
            while_memory_lasts(),
            self._replace_parts(block, instead, call.picked),
            tapped(block, {part: self._sites[part] for part in taps}) as tapped_parts,
        ):
            out = self._replay.run(
                block,
                index,
                resid.flatten(0, 1),
                self._prompts_B.repeat(len(resid)),
                cache=cache,
                start=self._start,
                attends=attends,
                state=passed,
            ).view(resid.shape)
        if out is None:
            return None
        parts = {part: values.to(out.device).view(resid.shape) for part, values in tapped_parts.items()}
        # The block has read ``passed`` and put into the same dict what it passes on itself.
        return _Output(out, passed, cache, parts)

    def _replace_parts(
        self, block: nn.Module, instead: Mapping[str, tuple[Tensor, Tensor]], picked: list[int]
    ) -> AbstractContextManager[None]:
        """Let parts of the block add other values, in those rows of a call that ask for it."""
        masks, values = {}, {}
        for part, (mask, value) in instead.items():
            call_mask = mask[picked].flatten(0, 1)
            if bool(call_mask.any()):
                masks[part] = call_mask
                values[part] = value.expand(len(picked), -1, -1, -1).flatten(0, 1) if value.ndim else value
        return replaced(block, self._sites, values, masks)

    def _gather_passed(self, slots: Sequence[int], keys: Sequence[object]) -> State:
        """Return what the rows of some slots take into a call, [rows · batch, …] each."""
        places = at(slots, self.state.device)
        return {key: tuple(t[places].flatten(0, 1) for t in self._passed[key]) for key in keys}

    def _store_passed(self, call: _Call, passed: State) -> None:
        """Store what the rows of a call pass on."""
        places = at(call.slots, self.state.device)
        for key, tensors in passed.items():
            split = [t.unflatten(0, (-1, len(self._prompts_B))) for t in tensors]
            if key not in self._passed:
                # A row that skips this block everywhere still takes along what the block makes of the real stream,
                # because later blocks expect it: all slots begin with the control's.
                self._passed[key] = tuple(_repeat_in_slots(t[:1], len(self.state)) for t in split)
            for buffer, values in zip(self._passed[key], split):
                buffer[places] = values[call.own_rows]

    def _store_lent(self, index: int, call: _Call, cache: CaptureCache) -> None:
        """Store what a call's rows lend of the keys and values that the block has computed."""
        keys, values = (
            None if states is None else states.unflatten(0, (-1, len(self._prompts_B)))[call.own_rows]
            for states in (cache.keys, cache.values)
        )
        self._lent.add(call.slots, keys, values, attends=self._replay.attends(index, cache))


def _repeat_in_slots(state: Tensor, slots: int) -> Tensor:
    """Return [1, …] as [slots, …]; every slot has its own memory."""
    return state.repeat(slots, *[1] * (state.ndim - 1))
