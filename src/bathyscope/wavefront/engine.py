"""The wavefront: all rows of all measures advance together, block by block, in one visit of each block.

One *visit* of a block goes down this list: the plain forward; direct rows; full rows, led by the control; tails, which
borrow keys and values of the full rows; replaced rows. Each call's result is shown to the probes as a view and
released.

Three histories are unchanged, and are told apart by what they are computed in. The *plain forward* (``plain``, called
baseline in views and results) runs alone, in the model's own shape, and equals the model bit by bit. The *control* runs
in the calls of the changed rows, and they are compared with it. The *control tail* does the same for tails. How far a
control is from the plain forward is the noise floor: rounding alone.

Several batches of prompts may share the visits. Such a *convoy* loads each block once for all its batches, which
matters where blocks are streamed from a disk; every batch still has calls of its own, so its numbers are those it has
alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.streaming.lending import keeping, lent
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.direct import DirectRows
from bathyscope.wavefront.full import FullRows, PartTaps
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.plain import PlainForward
from bathyscope.wavefront.plan import compile_tracks
from bathyscope.wavefront.probe import BaselineView, FinalStates, ReplacedStates, RowPartsView, RowsView, TailStates
from bathyscope.wavefront.reader import Reader
from bathyscope.wavefront.replace import ReplacedRows
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow
from bathyscope.wavefront.tail import TailRows, group_tails

Step = Callable[[int, int], None]


class Wavefront:
    """Runs batches of prompts through a model's blocks for any number of probes.

    Args:
        tails: tail rows may borrow keys and values (the check at load decides); otherwise full rows take their place.
        call_tokens: tokens per call of a block; None = by device.
        replacement_bytes: memory for the states of replaced rows; rows beyond it are computed in further sweeps over
            the blocks. None = by device.
        read_bytes: what logits and their comparison may take at once; None = by device.

    Raises:
        ModelError: ``read_bytes`` is less than one token's logits take.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        *,
        tails: bool,
        call_tokens: int | None = None,
        replacement_bytes: int | None = None,
        read_bytes: int | None = None,
    ) -> None:
        self.anatomy = anatomy
        self.replacement_bytes = replacement_bytes
        self.tails = tails
        self.reader = Reader.of(anatomy, read_bytes)
        parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
        self.policy = CallPolicy.for_model(anatomy, parameter.dtype, parameter.device, call_tokens)

    def run(self, batch: Batch, probes: Sequence[Probe], step: Step | None = None) -> None:
        """Pass over the blocks once for one batch; every probe sees what it asked for."""
        self.run_convoy([(batch, probes)], step)

    @torch.no_grad()
    def run_convoy(self, convoy: Sequence[tuple[Batch, Sequence[Probe]]], step: Step | None = None) -> None:
        """Pass over the blocks once for several batches: each block is visited once, and runs on all of them.

        Every batch has calls of its own, so that its results are those it has alone.

        Args:
            step: called after every block with (blocks done, blocks in all).

        Raises:
            ModelError: a residual stream that is not finite, with the block where it began.
        """
        with evaluating(self.anatomy.model):
            passes = [_BatchPass(self, batch, probes) for batch, probes in convoy]
            sweeps = max(batch_pass.sweeps for batch_pass in passes)
            # of stored states, which have no blocks, one for every two neighbouring boundaries
            n_blocks = len(self.anatomy.blocks)
            # Rows that go back to earlier blocks run inside a visit; a streamed model must still hold those blocks.
            with keeping(self.anatomy.blocks[0], max(batch_pass.window for batch_pass in passes)):
                for visit in range(n_blocks * sweeps):
                    sweep, index = divmod(visit, n_blocks)
                    with lent(self.anatomy.blocks[index]) as block:
                        for batch_pass in passes:
                            batch_pass.visit(sweep, index, block)
                    if step is not None:
                        step(visit + 1, n_blocks * sweeps)


class _BatchPass:
    """The pass of one batch over the blocks: its rows of every kind, and the probes that watch them."""

    def __init__(self, wave: Wavefront, batch: Batch, probes: Sequence[Probe]) -> None:
        self._wave = wave
        self._batch = batch
        self._probes = probes
        anatomy = wave.anatomy
        policy = wave.policy
        replay = anatomy.replay(batch.ids_BT)
        self._plain = PlainForward(
            anatomy,
            replay,
            parts=any(probe.wants_parts for probe in probes),
            weights=any(probe.wants_weights for probe in probes),
        )
        requests = list(dict.fromkeys(r for probe in probes for r in probe.requests))
        direct = [r for r in requests if isinstance(r, SkipRow | SkipBefore) and r.part == "direct"]
        carried = [r for r in requests if not isinstance(r, SkipRow | SkipBefore) or r.part != "direct"]
        in_full, tails = _divide_requests(carried, anatomy.n_blocks, wave.tails)
        tracks = compile_tracks(in_full, anatomy.n_blocks, batch.size)
        self.window = max((track.window for track in tracks), default=1)
        """How many blocks behind one another its rows run in one visit."""
        parts = PartTaps(probes, tracks)
        self._late_in_full = group_tails([r for r in in_full if isinstance(r, SkipBefore)])
        donors = [request.donor for request in tails]
        self._full = FullRows(tracks, replay, batch, policy, anatomy, parts, donors=donors)
        self._tails = [
            TailRows(group, replay, policy, self._full, batch.lengths[group[0].prompt]) for group in group_tails(tails)
        ]
        # Full rows before tails, which borrow what the full rows have computed in the same visit.
        self._rows: list[DirectRows | FullRows | TailRows] = [
            DirectRows(direct, self._plain, replay, batch, policy, tails=wave.tails),
            *([self._full] if tracks else []),
            *self._tails,
        ]
        replacements = [replacement for probe in probes for replacement in probe.replacements]
        self._replaced = ReplacedRows(
            anatomy, batch, replacements, policy, wave.reader, tails=wave.tails, room=wave.replacement_bytes
        )
        self.sweeps = self._replaced.sweeps
        """How many times all blocks must be visited."""

    def visit(self, sweep: int, index: int, block: nn.Module) -> None:
        """Move everything over one block.

        The first sweep over the blocks moves rows of every kind. Replaced rows that do not fit into memory with the
        others have further sweeps, in which nothing else runs.
        """
        if sweep >= self.sweeps:
            return
        if sweep == 0:
            self._show(self._advance(block, index))
        self._replaced.advance(block, index)
        if sweep == 0:
            for probe in self._probes:
                probe.block_done(index)
        if index == len(self._wave.anatomy.blocks) - 1:
            self._land(first=sweep == 0)

    def _advance(self, block: nn.Module, index: int) -> Iterator[BaselineView | RowsView | RowPartsView]:
        """Move every row but the replaced ones over one block, the plain forward first."""
        plain = self._plain.advance(block, index)
        yield plain
        for rows in self._rows:
            yield from rows.advance(block, index, plain)

    def _land(self, *, first: bool) -> None:
        """Show the final states after the last block."""
        if first:
            self._plain.require_finite()
            self._plain.require_own_stream(self._wave.anatomy, self._batch.ids_BT)
        self._show(self._replaced.land(self._plain.resid_BTD))
        if first:
            self._show(self._full.land(self._wave.anatomy.n_blocks))
            final = self._final()
            for probe in self._probes:
                probe.finish(final)

    def _show(self, views: Iterable[BaselineView | RowsView | RowPartsView | ReplacedStates]) -> None:
        """Show each view to the probes that asked for it, and then let go of it; views meet probes nowhere else."""
        for view in views:
            requests = {r for row in view.requests for r in row} if isinstance(view, RowsView) else set()
            for probe in self._probes:
                match view:
                    case BaselineView():
                        probe.baseline(view)
                    case RowsView() if not requests.isdisjoint(probe.requests):
                        probe.rows(view)
                    case RowPartsView() if probe.part_steps:
                        probe.row_parts(view)
                    case ReplacedStates() if view.replacement in probe.replacements:
                        probe.landed(view)

    def _final(self) -> FinalStates:
        """Collect the final states of everything; full rows that stand in for tails are cut to what tails own."""
        baseline = self._plain.resid_BTD
        full = self._full.final()
        control = self._full.control if full else baseline
        tails = [tail.states(self._wave.anatomy.n_blocks, baseline) for tail in self._tails]
        for group in self._late_in_full:
            prompt = group[0].prompt
            start = group[0].start
            tail_tokens = slice(start, self._batch.lengths[prompt])
            rows: dict[Request, Tensor] = {r: full[r][prompt, tail_tokens] for r in group}
            tails.append(TailStates(prompt, start, control[prompt, tail_tokens], baseline[prompt, tail_tokens], rows))
        return FinalStates(self._batch, self._wave.reader, baseline, control, full, tails)


def _divide_requests(requests: Sequence[Request], n_blocks: int, tails: bool) -> tuple[list[Request], list[SkipBefore]]:
    """Divide requests into those that are computed in full rows, and those computed in tails."""
    late = [r for r in requests if isinstance(r, SkipBefore)]
    # Skipping the last block before a token changes nothing at that token or later: measures hold 0 for it.
    effective = [r for r in late if r.part != "channels" and r.block < n_blocks - 1]
    full: list[Request] = [r for r in requests if not isinstance(r, SkipBefore)]
    full += [r for r in late if r.part == "channels"]
    # A tail needs its donor among the full rows, whether or not a measure asked for it.
    full += [r.donor for r in effective] if tails else effective
    # Skip rows first: probes are shown every block of a skip row, so it must never fork from another row. Others may
    # fork from it.
    in_order = sorted(dict.fromkeys(full), key=lambda r: not isinstance(r, SkipRow))
    return in_order, effective if tails else []
