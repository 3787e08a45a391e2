"""Full rows: histories that own every token of their prompts, advanced together block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.anatomy.family import Site
from bathyscope.anatomy.replay import Replay
from bathyscope.anatomy.sites import silenced
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CacheMaker, CallPolicy, CallResult, Carry, Edits, RowCaller
from bathyscope.wavefront.parts import PartTaps, Place
from bathyscope.wavefront.plan import Birth, Fork, Track
from bathyscope.wavefront.provider import BlockProvider
from bathyscope.wavefront.rows import Request, ScheduleRow

_PARTS = ("attention", "mlp")
Show = Callable[[int, Sequence[Sequence[Request]], CallResult], None]


class FullRows:
    """The control row and all tracks of one batch.

    Rows live in slots of one buffer [slots, batch, tokens, width]; slot 0 is the control. A track gets its
    slot when it is born.

    Args:
        tracks: compiled histories (see ``plan``).
        resid0_BTD: what enters block 0.
        show: called for every call of a block that rows take in step with the control.
        parts: reads contributions in the calls where somebody wants them.
    """

    def __init__(
        self,
        tracks: Sequence[Track],
        replay: Replay,
        batch: Batch,
        policy: CallPolicy,
        provider: BlockProvider,
        sites: Mapping[str, Site],
        show: Show,
        parts: PartTaps,
    ) -> None:
        self._tracks = tracks
        self._parts = parts
        self._sites = sites
        self._provider = provider
        self._show = show
        resid0_BTD = replay.recording.resid0_BTD
        prompts = torch.arange(batch.size, device=resid0_BTD.device)
        self._caller = RowCaller(replay, policy, prompts)
        self._state = resid0_BTD.new_empty(len(tracks) + 1, *resid0_BTD.shape)
        self._state[0] = resid0_BTD
        self._previous = resid0_BTD
        self._protected = max((_protect(t) for t in tracks), default=0)
        self._heads = [resid0_BTD[:, : self._protected].clone()]
        self._track_of: dict[Request, int] = {r: i for i, t in enumerate(tracks) for r in t.requests}
        self._slots: dict[int, int] = {}
        self._done: dict[int, int] = {}
        shares_state = any(a.state is not None for a in replay.recording.blocks)
        self._carry: Carry | None = {} if shares_state else None
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._active: list[int] = []
        self.attends = False

    @property
    def control(self) -> Tensor:
        """The control's residual stream at the current boundary [batch, tokens, width]."""
        return self._state[0]

    @property
    def control_carry(self) -> Mapping[object, tuple[Tensor, ...]]:
        """What blocks passed on in the control row, [batch, …] each."""
        return {key: tuple(t[0] for t in tensors) for key, tensors in (self._carry or {}).items()}

    def advance(self, block: nn.Module, index: int, capture: bool) -> None:
        """Moves the control and every row in step with it over one block; others catch up before and after."""
        self._spawn(index)
        self._catch_up(below=index)
        joining = [t for t in self._slots if self._next(t) == index]
        self._keys, self._values, self.attends = [], [], False
        self._active = [0, *sorted(self._slots[t] for t in joining)]
        by_slot = {self._slots[t]: t for t in joining}
        previous, replay = self._state[0].clone(), self._caller.replay
        caches, edits = CacheMaker() if capture else None, self._edits(by_slot)
        places = self._places(by_slot.get(slot) for slot in self._active)
        taps = self._parts.taps(index, places)
        for result in self._run(block, index, self._active, caches, edits, taps):
            own = slice(result.first, result.first + len(result.after))
            slots = self._active[own]
            served = [self._tracks[by_slot[s]].requests if s else () for s in slots]
            self._show(index, served, result)
            self._parts.shown(index, places[own], result)
            self._state[self._at(slots)] = result.after
            if result.captured.keys is not None and result.captured.values is not None:
                rows = len(result.after)
                self._keys.append(result.captured.keys.unflatten(0, (-1, self._state.shape[1]))[-rows:])
                self._values.append(result.captured.values.unflatten(0, (-1, self._state.shape[1]))[-rows:])
            self.attends |= replay.attends(index, result.captured)
        self._previous = previous
        self._heads.append(self._state[0][:, : self._protected].clone())
        for track in joining:
            self._stepped(track)
        self._catch_up(below=index + 1)

    def land(self, n_blocks: int) -> None:
        """After the last block: rows born at the last boundary, and those still behind, finish."""
        self._spawn(n_blocks)
        self._catch_up(below=n_blocks)

    def final(self) -> dict[Request, Tensor]:
        """Final states [batch, tokens, width] by request."""
        return {r: self._state[self._slots[i]] for i, t in enumerate(self._tracks) for r in t.requests}

    def slot(self, request: Request) -> int:
        """The slot of the track that serves a request."""
        return self._slots[self._track_of[request]]

    def lent(self, slots: Sequence[int], prompt: int, start: int) -> tuple[Tensor, Tensor] | None:
        """Keys and values [slots, heads, start, head width] of one prompt at the block that has just run."""
        if not self._keys:
            return None
        keys = self._keys[0] if len(self._keys) == 1 else torch.cat(self._keys)
        values = self._values[0] if len(self._values) == 1 else torch.cat(self._values)
        self._keys, self._values = [keys], [values]
        position = {slot: i for i, slot in enumerate(self._active)}
        rows = self._at([position[s] for s in slots])
        return keys[rows, prompt, :, :start], values[rows, prompt, :, :start]

    def _run(
        self,
        block: nn.Module,
        index: int,
        slots: Sequence[int],
        caches: CacheMaker | None = None,
        edits: Edits | None = None,
        taps: Mapping[str, Site] | None = None,
    ) -> Iterator[CallResult]:
        at = self._at(slots)
        carry = None if self._carry is None else {k: tuple(t[at] for t in v) for k, v in self._carry.items()}
        has_control = bool(slots and slots[0] == 0)
        yield from self._caller.calls(
            block, index, self._state[at], carry, caches, has_control=has_control, edits=edits, taps=taps
        )
        for key, tensors in (carry or {}).items():
            assert self._carry is not None
            if key not in self._carry:
                # a row that skips this block everywhere still lends later blocks what it makes of the real stream
                self._carry[key] = tuple(t[:1].repeat(len(self._state), *[1] * (t.ndim - 1)) for t in tensors)
            for buffer, value in zip(self._carry[key], tensors):
                buffer[at] = value

    def _at(self, slots: Sequence[int]) -> slice | Tensor:
        """Slots as a slice where they are neighbours (no copy), else as an index."""
        if list(slots) == list(range(slots[0], slots[0] + len(slots))):
            return slice(slots[0], slots[0] + len(slots))
        return torch.tensor(slots, device=self._state.device)

    def _spawn(self, boundary: int) -> None:
        for index, track in enumerate(self._tracks):
            if isinstance(track.origin, Birth) and track.origin.boundary == boundary:
                slot = self._take_slot(index, 0)
                self._state[slot] = self._born(track.origin)
                self._copy_carry(0, slot)
                self._fork_from(index)

    def _born(self, birth: Birth) -> Tensor:
        if birth.skips == "block":
            return torch.where(self._left_out(birth, self._state.shape[2])[..., None], self._previous, self._state[0])
        if birth.skips == "channels":
            return torch.where(self._left_out(birth, self._state.shape[3])[:, None], self._previous, self._state[0])
        return self._state[0]

    def _left_out(self, birth: Birth, size: int) -> Tensor:
        """Per prompt True at the tokens (channels) that a birth leaves out, [batch or 1, size]."""
        index = torch.arange(size, device=self._state.device)[None]
        taken = index >= birth.protect
        if birth.before is not None:
            taken = taken & (index < torch.tensor(birth.before, device=taken.device)[:, None])
        return taken

    def _edits(self, by_slot: Mapping[int, int]) -> Silences | None:
        """What rows at their first step leave out of the block that runs now; ``by_slot`` says whose slots run."""
        batch, tokens = self._state.shape[1:3]
        masks: dict[str, Tensor] = {}
        for row, slot in enumerate(self._active):
            track = by_slot.get(slot)
            birth = None if track is None else self._tracks[track].birth
            if birth is not None and birth.skips in _PARTS and not self._done[by_slot[slot]]:
                if birth.skips not in masks:
                    masks[birth.skips] = torch.zeros(
                        len(self._active), batch, tokens, dtype=torch.bool, device=self._state.device
                    )
                masks[birth.skips][row] = self._left_out(birth, tokens)
        return Silences(self._sites, masks) if masks else None

    def _take_slot(self, track: int, done: int) -> int:
        self._slots[track] = len(self._slots) + 1
        self._done[track] = done
        return self._slots[track]

    def _next(self, track: int) -> int | None:
        steps = self._tracks[track].steps
        return steps[self._done[track]] if self._done[track] < len(steps) else None

    def _places(self, tracks: Iterable[int | None]) -> list[Place | None]:
        """Where in their histories tracks are; None = the control."""
        return [None if track is None else (track, self._done[track]) for track in tracks]

    def _stepped(self, track: int) -> None:
        self._done[track] += 1
        birth = self._tracks[track].birth
        boundary = birth.boundary + self._done[track]
        if birth.protect and not birth.skips and boundary < len(self._heads):
            head = self._heads[boundary][:, : birth.protect]
            self._state[self._slots[track]][:, : birth.protect] = head
        self._fork_from(track)

    def _fork_from(self, parent: int) -> None:
        for index, track in enumerate(self._tracks):
            origin = track.origin
            if isinstance(origin, Fork) and origin.track == parent and origin.steps == self._done[parent]:
                slot = self._take_slot(index, origin.steps)
                self._state[slot] = self._state[self._slots[parent]]
                self._copy_carry(self._slots[parent], slot)
                self._fork_from(index)

    def _copy_carry(self, source: int, target: int) -> None:
        for tensors in (self._carry or {}).values():
            for buffer in tensors:
                buffer[target] = buffer[source]

    def _catch_up(self, below: int) -> None:
        """Rows whose next block lies behind the wave (swaps, repeats) run until they are in step again."""
        while True:
            behind = {t: n for t in self._slots if (n := self._next(t)) is not None and n < below}
            if not behind:
                return
            index = min(behind.values())
            tracks = sorted((t for t, n in behind.items() if n == index), key=lambda t: self._slots[t])
            slots, places = [self._slots[t] for t in tracks], self._places(tracks)
            with self._provider.block(index) as block:
                for result in self._run(block, index, slots, taps=self._parts.taps(index, places)):
                    own = slice(result.first, result.first + len(result.after))
                    self._parts.shown(index, places[own], result)
                    self._state[self._at(slots[own])] = result.after
            for track in tracks:
                self._stepped(track)


@dataclass(frozen=True)
class Silences:
    """Contributions that some rows of one block leave out.

    Args:
        masks: part → True at the tokens [rows, batch, tokens] where it adds nothing.
    """

    sites: Mapping[str, Site]
    masks: Mapping[str, Tensor]

    def during(self, block: nn.Module, picked: list[int] | slice) -> AbstractContextManager[None]:
        """In force for the picked rows inside the context."""
        own = {part: mask[picked].flatten(0, 1) for part, mask in self.masks.items()}
        return silenced(block, self.sites, {part: mask for part, mask in own.items() if bool(mask.any())})


def _protect(track: Track) -> int:
    return max((r.protect for r in track.requests if isinstance(r, ScheduleRow)), default=0)
