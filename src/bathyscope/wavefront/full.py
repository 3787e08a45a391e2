"""Full rows: histories that own every token of their prompts, advanced together block by block."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.streaming.lending import lent
from bathyscope.wavefront import views
from bathyscope.wavefront.batch import Batch, within
from bathyscope.wavefront.calls import CallPolicy, CallResult
from bathyscope.wavefront.plan import Birth, Fork, Track
from bathyscope.wavefront.probe import BaselineView, Probe, RowPartsView, RowsView
from bathyscope.wavefront.rows import Request, ScheduleRow
from bathyscope.wavefront.slots import Slots

_PARTS = ("attention", "mlp")
Place = tuple[int, int]
"""A track and how many of its steps are done."""


class PartTaps:
    """Contributions are read where probes want them (``part_steps``); other calls stay untouched."""

    def __init__(self, probes: Sequence[Probe], tracks: Sequence[Track]) -> None:
        self._at: dict[Place, list[tuple[ScheduleRow, int]]] = {}
        self._blocks: set[int] = set()
        track_of = {request: index for index, track in enumerate(tracks) for request in track.requests}
        for row, steps in (wanted for probe in probes for wanted in probe.part_steps.items()):
            for step in steps:
                self._at.setdefault(_place(tracks, track_of[row], step), []).append((row, step))
                self._blocks.add(row.schedule.order[step])

    def taps(self, block: int, places: Sequence[Place | None]) -> tuple[str, ...]:
        """The parts to read in calls of a block on rows at these places (None = the control)."""
        wanted = any(block in self._blocks if place is None else place in self._at for place in places)
        return _PARTS if wanted else ()

    def views(self, block: int, places: Sequence[Place | None], result: CallResult) -> Iterator[RowPartsView]:
        """What a call shows, where it was tapped; ``places`` are those of the call's own rows."""
        if result.parts:
            rows = {wanted: row for row, place in enumerate(places) if place for wanted in self._at.get(place, ())}
            yield RowPartsView(block, rows, result.parts, result.control_parts)


def _place(tracks: Sequence[Track], track: int, step: int) -> Place:
    """The track that runs a step of a row's schedule, which may be one that the row's own track forks from."""
    done = step - tracks[track].birth.boundary
    if done < 0:
        raise ValueError(f"step {step} belongs to the part of the schedule that is the control's")
    while done < tracks[track].done_at_birth:
        origin = tracks[track].origin
        assert isinstance(origin, Fork)
        track = origin.track
    return track, done


@dataclass
class _Runner:
    """A track that has begun: its number, its slot, and how many of its steps are done."""

    number: int
    track: Track
    slot: int
    done: int

    @property
    def next(self) -> int | None:
        """The block it runs next, None at the end of its steps."""
        return self.track.steps[self.done] if self.done < len(self.track.steps) else None


class FullRows(Slots):
    """The control row and all tracks of one batch. A track gets the next slot when it begins.

    Args:
        donors: requests whose rows, beside the control, lend keys and values to tails; empty = there are none.
    """

    def __init__(
        self,
        tracks: Sequence[Track],
        replay: Replay,
        batch: Batch,
        policy: CallPolicy,
        anatomy: Anatomy,
        parts: PartTaps,
        *,
        donors: Collection[Request],
    ) -> None:
        super().__init__(replay, policy, 1 + len(tracks), sites=anatomy.sites)
        self._tracks, self._batch, self._blocks = tracks, batch, anatomy.blocks
        self._parts, self._donors = parts, frozenset(donors)
        self.state[0] = self._previous = replay.recording.resid0_BTD
        # the control's first tokens at every boundary, for rows of schedules that keep them
        self._protected = max((t.birth.protect for t in tracks if not t.birth.skips), default=0)
        self._heads = [self.control[:, : self._protected].clone()]
        self._runners: list[_Runner] = []
        self._slot_of: dict[Request, int] = {}

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView | RowPartsView]:
        """Moves the control and every row in step with it over one block; others catch up before and after."""
        self._spawn(index)
        yield from self._catch_up(below=index)
        joining = [runner for runner in self._runners if runner.next == index]
        slots = [0, *(runner.slot for runner in joining)]
        previous = self.control.clone()
        lends = {0, *(self._slot_of[one] for one in self._donors if one in self._slot_of)} if self._donors else ()
        silent = {part: (mask, self.state.new_zeros(())) for part, mask in self._silent(joining).items()}
        taps = self._parts.taps(index, self._places(slots))
        for result in self.run(block, index, slots, lends=lends, taps=taps, instead=silent):
            served = [self._runners[slot - 1].track.requests if slot else () for slot in result.slots]
            yield from views.of_full(plain, served, result, self._batch.lengths)
            yield from self._parts.views(index, self._places(result.slots), result)
        self._previous = previous
        self._heads.append(self.control[:, : self._protected].clone())
        for runner in joining:
            self._stepped(runner)
        yield from self._catch_up(below=index + 1)

    def land(self, n_blocks: int) -> Iterator[RowPartsView]:
        """After the last block: rows born at the last boundary, and those still behind, finish."""
        self._spawn(n_blocks)
        yield from self._catch_up(below=n_blocks)

    def final(self) -> dict[Request, Tensor]:
        """Final states [batch, tokens, width] by request."""
        return {request: self.state[self._slot_of[request]] for track in self._tracks for request in track.requests}

    def slot(self, request: Request) -> int:
        """The slot of the track that serves a request."""
        return self._slot_of[request]

    def _begin(self, number: int, source: int, done: int) -> _Runner:
        """A track begins with what a slot holds, and so do those that fork from it at once."""
        track = self._tracks[number]
        runner = _Runner(number, track, 1 + len(self._runners), done)
        self._runners.append(runner)
        self._slot_of.update(dict.fromkeys(track.requests, runner.slot))
        self.copy(source, runner.slot)
        return runner

    def _spawn(self, boundary: int) -> None:
        for number, track in enumerate(self._tracks):
            if isinstance(track.origin, Birth) and track.origin.boundary == boundary:
                runner = self._begin(number, 0, 0)
                self._leave_out(track.origin, runner.slot)
                self._fork_from(runner)

    def _leave_out(self, birth: Birth, slot: int) -> None:
        """Tokens, or channels, that leave a block out keep the stream that went into it."""
        size = {"block": self.state.shape[2], "channels": self.state.shape[3]}.get(birth.skips)
        if size is not None:
            mask = within(size, birth.protect, birth.before, self.state.device)
            mask = mask[..., None] if birth.skips == "block" else mask[:, None]
            self.state[slot] = torch.where(mask, self._previous, self.control)

    def _silent(self, joining: Sequence[_Runner]) -> dict[str, Tensor]:
        """What rows at their first step leave out of the block that runs now: part → mask [rows, batch, tokens]."""
        masks: dict[str, Tensor] = {}
        shape = (1 + len(joining), *self.state.shape[1:3])
        for row, runner in enumerate(joining, start=1):
            birth = runner.track.birth
            if birth.skips in _PARTS and not runner.done:
                if birth.skips not in masks:
                    masks[birth.skips] = torch.zeros(shape, dtype=torch.bool, device=self.state.device)
                masks[birth.skips][row] = within(shape[2], birth.protect, birth.before, self.state.device)
        return masks

    def _places(self, slots: Sequence[int]) -> list[Place | None]:
        """Where in their histories rows are; None = the control."""
        runners = [self._runners[slot - 1] if slot else None for slot in slots]
        return [None if runner is None else (runner.number, runner.done) for runner in runners]

    def _stepped(self, runner: _Runner) -> None:
        runner.done += 1
        birth = runner.track.birth
        if birth.protect and not birth.skips:
            head = self._heads[birth.boundary + runner.done]
            self.state[runner.slot][:, : birth.protect] = head[:, : birth.protect]
        self._fork_from(runner)

    def _fork_from(self, parent: _Runner) -> None:
        for number, track in enumerate(self._tracks):
            if track.origin == Fork(parent.number, parent.done):
                self._fork_from(self._begin(number, parent.slot, parent.done))

    def _catch_up(self, below: int) -> Iterator[RowPartsView]:
        """Rows whose next block lies behind the wave (swaps, repeats) run until they are in step again."""
        while True:
            behind = [(n, r) for r in self._runners if (n := r.next) is not None and n < below]
            if not behind:
                return
            index = min(n for n, _ in behind)
            runners = [r for n, r in behind if n == index]
            slots = [r.slot for r in runners]
            with lent(self._blocks[index]) as block:
                taps = self._parts.taps(index, self._places(slots))
                for result in self.run(block, index, slots, taps=taps):
                    yield from self._parts.views(index, self._places(result.slots), result)
            for runner in runners:
                self._stepped(runner)
