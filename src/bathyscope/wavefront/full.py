"""Full rows: histories that own every token of their prompts, advanced together block by block.

The *wave* is at one block at a time. Every row whose next block is that one joins the same calls, led by the
control. A row comes into being at the boundary where it parts from the control, or from another row (``plan``):
``drop:5`` is the control's h_5, waits while the wave visits block 5, and joins at block 6.

Rows whose schedule goes back to earlier blocks fall behind the wave: ``swap:5`` joins at block 6 and then needs block
5; a repeat needs its whole window again. They catch up at once, in calls of their own without the control, and are in
step again before the wave moves on. Without a control there, only contributions of parts are shown of those calls.

A step may be several blocks that read the same stream (``parallel:5+6``). The row runs them one after another, each on
the stream before the step, and then holds that stream with all their contributions.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.parallel import merge_contributions
from bathyscope.model.anatomy.precision import widened
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.streaming.lending import lent
from bathyscope.wavefront import views
from bathyscope.wavefront.batch import Batch, within
from bathyscope.wavefront.calls import CallPolicy, CallResult
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.plan import Birth, Fork, Track, blocks_of
from bathyscope.wavefront.probe import BaselineView, RowPartsView, RowsView
from bathyscope.wavefront.rows import Request, ScheduleRow
from bathyscope.wavefront.slots import CONTROL, Slots

_PARTS = ("attention", "mlp")
Place = tuple[int, int]
"""Where in a history: the number of its track, and how many of the track's steps are done."""


class PartTaps:
    """The calls in which probes want to see contributions of rows (``part_steps``); others are not tapped."""

    def __init__(self, probes: Sequence[Probe], tracks: Sequence[Track]) -> None:
        self._steps_at: dict[Place, list[tuple[ScheduleRow, int]]] = {}
        self._blocks: set[int] = set()
        track_of = {request: number for number, track in enumerate(tracks) for request in track.requests}
        for probe in probes:
            for row, steps in probe.part_steps.items():
                for step in steps:
                    place = _place_of_step(tracks, track_of[row], step)
                    self._steps_at.setdefault(place, []).append((row, step))
                    self._blocks.add(row.schedule.order[step])

    def taps(self, block: int, places: Sequence[Place | None]) -> tuple[str, ...]:
        """Return the parts to read in calls of a block on rows at these places (None = the control)."""
        is_tapped = any(block in self._blocks if place is None else place in self._steps_at for place in places)
        return _PARTS if is_tapped else ()

    def views(self, block: int, places: Sequence[Place | None], result: CallResult) -> Iterator[RowPartsView]:
        """Show the contributions of a call, if it was tapped; ``places`` are those of the call's slots."""
        if result.parts:
            row_of_step = {
                step: row for row, place in enumerate(places) if place for step in self._steps_at.get(place, ())
            }
            yield RowPartsView(block, row_of_step, result.parts, result.control_parts)


def _place_of_step(tracks: Sequence[Track], track: int, step: int) -> Place:
    """Return where a step of a row's schedule runs, which may be on a track that the row's own track forks from.

    A step is one block here: contributions of blocks in parallel are not shown.
    """
    # Steps before the birth are the blocks 0 … birth − 1 in order, which the control runs for every track.
    done = step - tracks[track].birth.boundary
    if done < 0:
        raise ValueError(f"step {step} belongs to the part of the schedule that is the control's")
    # A track that forked has its first steps from its parent, which may have forked itself.
    while done < tracks[track].done_at_birth:
        origin = tracks[track].origin
        assert isinstance(origin, Fork)
        track = origin.track
    return track, done


@dataclass
class _Runner:
    """A track that has begun: its number, its slot, and how many of its steps are done.

    In the middle of a step of several blocks it holds the stream ``before`` the step, and the ``outputs`` so far.
    """

    number: int
    track: Track
    slot: int
    done: int
    before: Tensor | None = None
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def step(self) -> tuple[int, ...]:
        """The blocks of the step that it is at, none at the end of its steps."""
        return blocks_of(self.track.steps[self.done]) if self.done < len(self.track.steps) else ()

    @property
    def next_block(self) -> int | None:
        """The block it runs next, None at the end of its steps."""
        return self.step[len(self.outputs)] if self.step else None

    @property
    def boundary(self) -> int:
        """The boundary at which its history is, after as many blocks."""
        return self.track.birth.boundary + sum(len(blocks_of(step)) for step in self.track.steps[: self.done])


class FullRows(Slots):
    """The control row and all tracks of one batch; a track takes the next slot when it begins.

    Args:
        donors: requests whose rows, together with the control, lend keys and values to tails; empty = no tails.
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
        self._tracks = tracks
        self._batch = batch
        self._blocks = anatomy.blocks
        self._parts = parts
        self._donors = frozenset(donors)
        self.state[CONTROL] = replay.recording.resid0_BTD
        # The control one boundary earlier: what a skipped block's input was.
        self._control_before = replay.recording.resid0_BTD
        # The control's first tokens at every boundary, because protected tokens of a schedule take its stream there.
        self._protected = max((track.birth.protect for track in tracks if not track.birth.skips), default=0)
        self._heads = [self.control[:, : self._protected].clone()]
        self._runners: list[_Runner] = []
        self._slot_of: dict[Request, int] = {}

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView | RowPartsView]:
        """Move the control and every row in step with it over one block; others catch up before and after."""
        self._spawn(index)
        yield from self._catch_up(below=index)
        joining = [runner for runner in self._runners if runner.next_block == index]
        slots = [CONTROL, *(runner.slot for runner in joining)]
        control_before = self.control.clone()
        self._hold_inputs(joining)
        silent_masks = self._mask_silent_parts(joining)
        nothing = self.state.new_zeros(())
        for result in self.run(
            block,
            index,
            slots,
            lends=self._lending_slots_now(),
            taps=self._parts.taps(index, self._places(slots)),
            instead={part: (mask, nothing) for part, mask in silent_masks.items()},
        ):
            # Runner r has slot r + 1, behind the control's.
            requests = [() if slot == CONTROL else self._runners[slot - 1].track.requests for slot in result.slots]
            yield from views.of_full(plain, requests, result, self._batch.lengths)
            yield from self._parts.views(index, self._places(result.slots), result)
        self._control_before = control_before
        self._heads.append(self.control[:, : self._protected].clone())
        for runner in joining:
            self._finish_call(runner)
        yield from self._catch_up(below=index + 1)

    def land(self, n_blocks: int) -> Iterator[RowPartsView]:
        """Finish rows that are born at the last boundary, and rows that are still behind."""
        self._spawn(n_blocks)
        yield from self._catch_up(below=n_blocks)

    def final(self) -> dict[Request, Tensor]:
        """Return final states [batch, tokens, width] by request."""
        return {request: self.state[self._slot_of[request]] for track in self._tracks for request in track.requests}

    def slot(self, request: Request) -> int:
        """Return the slot of the track that serves a request."""
        return self._slot_of[request]

    def _lending_slots_now(self) -> Collection[int]:
        """Return the control and the donors that have begun, or nothing where there are no tails."""
        if not self._donors:
            return ()
        return {CONTROL, *(self._slot_of[donor] for donor in self._donors if donor in self._slot_of)}

    def _begin(self, number: int, source: int, done: int) -> _Runner:
        """Begin a track with what a slot holds, after ``done`` of its steps."""
        track = self._tracks[number]
        runner = _Runner(number, track, 1 + len(self._runners), done)
        self._runners.append(runner)
        self._slot_of.update(dict.fromkeys(track.requests, runner.slot))
        self.copy(source, runner.slot)
        return runner

    def _spawn(self, boundary: int) -> None:
        """Begin the tracks that are born at a boundary, and those that fork from them before their first step."""
        for number, track in enumerate(self._tracks):
            if isinstance(track.origin, Birth) and track.origin.boundary == boundary:
                runner = self._begin(number, CONTROL, 0)
                self._skip_at_birth(track.origin, runner.slot)
                self._fork_from(runner)

    def _skip_at_birth(self, birth: Birth, slot: int) -> None:
        """Give the tokens, or channels, that skip a block the stream that went into it.

        The slot holds the control's stream behind the block, which tokens that do not skip it keep. A part that is left
        out needs its block to run: it is silenced there (``_mask_silent_parts``).
        """
        size = {"block": self.state.shape[2], "channels": self.state.shape[3]}.get(birth.skips)
        if size is not None:
            mask = within(size, birth.protect, birth.before, self.state.device)
            mask = mask[..., None] if birth.skips == "block" else mask[:, None]
            instead = self._control_before
            if birth.filled is not None:
                instead = (widened(instead) + birth.filled.values_BD[:, None]).to(instead.dtype)
            self.state[slot] = torch.where(mask, instead, self.control)

    def _mask_silent_parts(self, joining: Sequence[_Runner]) -> dict[str, Tensor]:
        """Mask what rows at their first step leave out of the running block: part → [rows, batch, tokens]."""
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
        """Return where in their histories rows are; None = the control."""
        runners = [None if slot == CONTROL else self._runners[slot - 1] for slot in slots]
        return [None if runner is None else (runner.number, runner.done) for runner in runners]

    def _hold_inputs(self, runners: Sequence[_Runner]) -> None:
        """Hold the stream before a step of several blocks, which all of them read."""
        for runner in runners:
            if len(runner.step) > 1 and runner.before is None:
                runner.before = self.state[runner.slot].clone()

    def _finish_call(self, runner: _Runner) -> None:
        """Count the call of a block, and the step that it ends; within a step the next block reads the same stream."""
        if runner.before is not None:
            runner.outputs.append(self.state[runner.slot].clone())
            if len(runner.outputs) < len(runner.step):
                self.state[runner.slot] = runner.before
                return
            self.state[runner.slot] = merge_contributions(runner.before, runner.outputs)
            runner.before, runner.outputs = None, []
        self._finish_step(runner)

    def _finish_step(self, runner: _Runner) -> None:
        """Count a step, put protected tokens back on the control's stream, and begin the tracks that fork here."""
        runner.done += 1
        birth = runner.track.birth
        # Of a schedule, a row is at a boundary whichever blocks took it there; of a skip, protected
        # tokens have run every block themselves.
        if birth.protect and not birth.skips:
            head = self._heads[runner.boundary]
            self.state[runner.slot][:, : birth.protect] = head[:, : birth.protect]
        self._fork_from(runner)

    def _fork_from(self, parent: _Runner) -> None:
        """Begin the tracks that part from another one at this step, and those that part from these at once."""
        for number, track in enumerate(self._tracks):
            if track.origin == Fork(parent.number, parent.done):
                self._fork_from(self._begin(number, parent.slot, parent.done))

    def _catch_up(self, below: int) -> Iterator[RowPartsView]:
        """Run rows whose next block is behind the wave (swaps, repeats) until they are in step again."""
        while True:
            behind = [
                (next_block, runner)
                for runner in self._runners
                if (next_block := runner.next_block) is not None and next_block < below
            ]
            if not behind:
                return
            # The earliest block first, so that rows which need the same ones run together.
            index = min(next_block for next_block, _ in behind)
            runners = [runner for next_block, runner in behind if next_block == index]
            slots = [runner.slot for runner in runners]
            self._hold_inputs(runners)
            with lent(self._blocks[index]) as block:
                taps = self._parts.taps(index, self._places(slots))
                for result in self.run(block, index, slots, taps=taps):
                    yield from self._parts.views(index, self._places(result.slots), result)
            for runner in runners:
                self._finish_call(runner)
