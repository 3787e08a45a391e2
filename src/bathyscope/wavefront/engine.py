"""The wavefront: all rows of all measures advance together, block by block, in one visit of each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.attention import Seen, attending
from bathyscope.anatomy.mode import evaluating
from bathyscope.anatomy.replay import Replay, State
from bathyscope.anatomy.sites import tapped
from bathyscope.errors import ModelError
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy, CallResult
from bathyscope.wavefront.direct import DirectRows
from bathyscope.wavefront.erase import ErasureRows
from bathyscope.wavefront.full import FullRows
from bathyscope.wavefront.parts import PartTaps
from bathyscope.wavefront.plan import Late, compile_tracks
from bathyscope.wavefront.probe import BaselineView, FinalStates, Probe, RowPartsView, RowsView, TailStates
from bathyscope.wavefront.provider import BlockProvider, ResidentBlocks
from bathyscope.wavefront.rows import (
    DirectBefore,
    DirectRow,
    Request,
    ScheduleRow,
    SkipBefore,
    SkipChannels,
    SkipRow,
)
from bathyscope.wavefront.tail import TailRows, group_tails

Step = Callable[[int, int], None]


class Wavefront:
    """Runs batches of prompts through a model's blocks for any number of probes.

    Args:
        anatomy: the model.
        tails: tail rows may share keys and values (the check at load decides); otherwise full rows are
            computed in their place.
        call_tokens: tokens per call of a block; None = by device.
        provider: where blocks come from; None = they are in memory.
        erasure_bytes: what the states of erased rows may take at once; more are computed in further visits of
            the blocks. None = by device.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        *,
        tails: bool,
        call_tokens: int | None = None,
        provider: BlockProvider | None = None,
        erasure_bytes: int | None = None,
    ) -> None:
        self.anatomy = anatomy
        self.erasure_bytes = erasure_bytes
        self.tails = tails
        self.provider = provider or ResidentBlocks(anatomy.blocks)
        parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
        self.policy = CallPolicy.for_model(parameter.dtype, parameter.device, call_tokens)

    @torch.no_grad()
    def run(self, batch: Batch, probes: Sequence[Probe], step: Step | None = None) -> None:
        """One pass over the blocks; every probe sees what it asked for.

        Args:
            step: called after every block with (blocks done, blocks in all).

        Raises:
            ModelError: a residual stream that is not finite, with the block where it began.
        """
        with evaluating(self.anatomy.model):
            _Sweep(self, batch, probes).run(step)


class _Sweep:
    """One batch's pass."""

    def __init__(self, wave: Wavefront, batch: Batch, probes: Sequence[Probe]) -> None:
        self._wave = wave
        self._batch = batch
        self._probes = probes
        self._anatomy = wave.anatomy
        self._replay: Replay = wave.anatomy.replay(batch.ids_BT)
        self._baseline = self._replay.recording.resid0_BTD
        self._baseline_before = self._baseline
        self._baseline_state: State = {}
        self._finite: list[Tensor] = []
        requests = list(dict.fromkeys(r for probe in probes for r in probe.requests))
        # skipping the last block before a token changes nothing at that token or later
        last = self._anatomy.n_blocks - 1
        befores = [r for r in requests if isinstance(r, SkipBefore) and r.block < last]
        others = [r for r in requests if isinstance(r, ScheduleRow | SkipRow)]
        if wave.tails:
            others += [r.donor for r in befores]
        channels = [r for r in requests if isinstance(r, SkipChannels)]
        self._late_in_full: list[Late] = [*channels, *([] if wave.tails else befores)]
        rows = _skips_first(dict.fromkeys([*others, *self._late_in_full]))
        tracks = compile_tracks(rows, self._anatomy.n_blocks, batch.size)
        parts = PartTaps(_part_steps(probes), tracks, wave.anatomy.sites, self._show_parts)
        self._full = (
            FullRows(
                tracks, self._replay, batch, wave.policy, wave.provider, wave.anatomy.sites, self._show_full, parts
            )
            if tracks
            else None
        )
        direct = [r for r in requests if isinstance(r, DirectRow | DirectBefore)]
        self._direct = (
            DirectRows(direct, self._replay, batch, wave.policy, wave.tails, self._show_full, self._show_tail)
            if direct
            else None
        )
        self._tails = [
            TailRows(group, self._replay, batch.lengths[group[0].prompt], wave.policy, self._show_tail)
            for group in (group_tails(befores) if wave.tails else [])
        ]
        erasures = [e for probe in probes for e in probe.erasures]
        self._erased = ErasureRows(
            wave.anatomy, batch, erasures, wave.policy, tails=wave.tails, room=wave.erasure_bytes
        )

    def run(self, step: Step | None) -> None:
        n_blocks = self._anatomy.n_blocks
        for index in range(n_blocks):
            with self._wave.provider.block(index) as block:
                self._advance_baseline(block, index)
                if self._direct is not None:
                    self._direct.advance(block, index, self._baseline_before, self._baseline, self._baseline_state)
                if self._full is not None:
                    self._full.advance(block, index, capture=bool(self._tails))
                    self._advance_tails(block, index)
                self._erased.advance(block, index)
            for probe in self._probes:
                probe.block_done(index)
            if step is not None:
                step(index + 1, n_blocks * self._erased.sweeps)
        self._require_finite()
        self._show_erased()
        if self._full is not None:
            self._full.land(n_blocks)
        final = self._final()
        for probe in self._probes:
            probe.finish(final)
        for sweep in range(1, self._erased.sweeps):
            self._visit_again(sweep, step)

    def _visit_again(self, sweep: int, step: Step | None) -> None:
        """The blocks once more, for erased rows that had no room before."""
        n_blocks = self._anatomy.n_blocks
        for index in range(n_blocks):
            with self._wave.provider.block(index) as block:
                self._erased.advance(block, index)
            if step is not None:
                step(sweep * n_blocks + index + 1, n_blocks * self._erased.sweeps)
        self._show_erased()

    def _show_erased(self) -> None:
        for states in self._erased.land(self._baseline):
            for probe in self._probes:
                if states.erasure in probe.erasures:
                    probe.landed(states)

    def _advance_baseline(self, block: torch.nn.Module, index: int) -> None:
        wants_parts = any(probe.wants_parts for probe in self._probes)
        wants_weights = any(probe.wants_weights for probe in self._probes)
        self._baseline_before = self._baseline
        prompts = torch.arange(self._batch.size, device=self._baseline.device)
        watch = attending(block, self._batch.size, self._batch.tokens) if wants_weights else nullcontext(Seen())
        with tapped(block, self._anatomy.sites if wants_parts else {}) as taken, watch as seen:
            self._baseline = self._replay.run(block, index, self._baseline, prompts, state=self._baseline_state)
        self._finite.append(torch.isfinite(self._baseline).all())
        shape = self._baseline.shape
        parts = {part: value.reshape(shape) for part, value in taken.items()}
        view = BaselineView(
            index, self._baseline_before, self._baseline, parts.get("attention"), parts.get("mlp"), seen.attention
        )
        for probe in self._probes:
            probe.baseline(view)

    def _require_finite(self) -> None:
        """Asked once at the end, so that an accelerator is not waited for at every block."""
        finite = torch.stack(self._finite).tolist()
        if not all(finite):
            dtype = str(self._baseline.dtype).removeprefix("torch.")
            raise ModelError(
                f"Block {finite.index(False)} gives NaN or Inf on this input in {dtype}; load the model with a wider "
                "dtype (dtype='float32' or 'bfloat16')."
            )

    def _advance_tails(self, block: torch.nn.Module, index: int) -> None:
        assert self._full is not None
        for tail in self._tails:
            if tail.first_boundary <= index:
                tail.advance(block, index, self._full)
            elif tail.first_boundary == index + 1:
                tail.begin(self._full)

    def _show_parts(self, view: RowPartsView) -> None:
        for probe in self._probes:
            if probe.part_steps:
                probe.row_parts(view)

    def _show_full(self, index: int, served: Sequence[Sequence[Request]], result: CallResult) -> None:
        view = RowsView(
            block=index,
            requests=served,
            before=result.before,
            after=result.after,
            control_before=result.control_before,
            control_after=result.control_after,
            baseline_before=self._baseline_before,
            baseline_after=self._baseline,
        )
        self._emit(view)
        self._show_full_as_tails(view)

    def _show_full_as_tails(self, view: RowsView) -> None:
        """Full rows that are seen from a token on, or stand in for tails: the same views a tail would give."""
        found: dict[tuple[int, int], list[tuple[int, Request]]] = {}
        for row, served in enumerate(view.requests):
            for request in served:
                if isinstance(request, SkipBefore | SkipChannels | DirectBefore):
                    found.setdefault((request.prompt, request.start), []).append((row, request))
        for (prompt, start), rows in found.items():
            own = slice(start, self._batch.lengths[prompt])
            one = slice(prompt, prompt + 1)
            picked = [row for row, _ in rows]
            self._emit(
                RowsView(
                    block=view.block,
                    requests=[(request,) for _, request in rows],
                    before=view.before[picked][:, one, own],
                    after=view.after[picked][:, one, own],
                    control_before=view.control_before[one, own],
                    control_after=view.control_after[one, own],
                    baseline_before=view.baseline_before[one, own],
                    baseline_after=view.baseline_after[one, own],
                    prompt=prompt,
                    start=start,
                )
            )

    def _show_tail(
        self, index: int, served: Sequence[Sequence[Request]], result: CallResult, prompt: int, start: int
    ) -> None:
        length = self._batch.lengths[prompt]
        own, one = slice(0, length - start), slice(prompt, prompt + 1)
        self._emit(
            RowsView(
                block=index,
                requests=served,
                before=result.before[:, :, own],
                after=result.after[:, :, own],
                control_before=result.control_before[:, own],
                control_after=result.control_after[:, own],
                baseline_before=self._baseline_before[one, start:length],
                baseline_after=self._baseline[one, start:length],
                prompt=prompt,
                start=start,
            )
        )

    def _emit(self, view: RowsView) -> None:
        shown = {request for served in view.requests for request in served}
        for probe in self._probes:
            if not shown.isdisjoint(probe.requests):
                probe.rows(view)

    def _final(self) -> FinalStates:
        full: dict[Request, Tensor] = self._full.final() if self._full is not None else {}
        control = self._full.control if self._full is not None else self._baseline
        tails: list[TailStates] = []
        if self._wave.tails:
            for tail in self._tails:
                own_control, rows = tail.final(self._anatomy.n_blocks)
                tails.append(self._tail_states(tail.prompt, tail.start, own_control, rows))
        for group in group_tails(self._late_in_full):
            prompt, start = group[0].prompt, group[0].start
            own = slice(start, self._batch.lengths[prompt])
            rows = {r: full[r][prompt, own] for r in group}
            tails.append(self._tail_states(prompt, start, control[prompt, own], rows))
        return FinalStates(self._batch, self._anatomy.readout, self._baseline, control, full, tails)

    def _tail_states(self, prompt: int, start: int, control_ND: Tensor, rows: dict[Request, Tensor]) -> TailStates:
        own = slice(start, self._batch.lengths[prompt])
        return TailStates(prompt, start, control_ND, self._baseline[prompt, own], rows)


def _part_steps(probes: Sequence[Probe]) -> dict[ScheduleRow, set[int]]:
    """Row → the steps at which any probe looks at its contributions."""
    wanted: dict[ScheduleRow, set[int]] = {}
    for probe in probes:
        for row, steps in probe.part_steps.items():
            wanted.setdefault(row, set()).update(steps)
    return wanted


def _skips_first(requests: dict[Request, None]) -> list[Request]:
    """Skip rows first: their blocks are observed, so they must own all their steps; others may fork from them."""
    return sorted(requests, key=lambda r: not isinstance(r, SkipRow))
