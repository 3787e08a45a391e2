"""The shards of a plan, computed batch by batch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, Final

import torch
import xarray as xr

from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import without_folders
from bathyscope.errors import ModelError, is_out_of_memory
from bathyscope.measures.base import Measure, MeasureProbe
from bathyscope.measures.guard import Forms, require_dataset, require_shapes, told_by_name, watched
from bathyscope.model.memory import free_bytes, out_of_memory
from bathyscope.model.ranks import size
from bathyscope.prompts.label_checks import require_free
from bathyscope.runs.canonical import canonical
from bathyscope.runs.merge import merge, require_by_prompt
from bathyscope.runs.shards import Datasets
from bathyscope.surveying.advancing import ConvoyProgress, ReadoutCounts, TimeLeft, Weights
from bathyscope.surveying.assembly import NOISE, joined_noise, noise_by_prompt, with_labels
from bathyscope.surveying.cutting import Pace
from bathyscope.surveying.growing import EarlierResults, StoredShard
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import measure_rates, nominal_rates
from bathyscope.surveying.sharding import call_size
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.replace import default_room

Write = Callable[[int, Datasets], None]
"""Takes the results of a shard, by its index in the plan."""

_WORTH_MEASURING: Final = 30.0
"""Nominal seconds of a survey whose progress is shown by measured rates, which take two or three."""


@dataclass(frozen=True)
class _Unit:
    """A batch: prompts that are computed together, by their numbers.

    Args:
        measures: those that are still to be computed.
        stored: results of the others.
    """

    picked: list[int]
    measures: tuple[Measure[Any], ...]
    stored: Datasets


@dataclass
class _Shard:
    """A shard in work.

    Args:
        index: in the plan.
        units: its batches.
        stored: results of all its prompts that need not be computed.
        pieces: prompts and results of the batches that are done.
    """

    index: int
    units: list[_Unit]
    stored: Datasets
    pieces: list[tuple[list[int], Datasets]] = field(default_factory=list)


class Computation:
    """Computes shards of a plan, in one call or in several.

    Args:
        stored: results of a smaller run that are taken over; None = all are computed.
    """

    def __init__(self, plan: SurveyPlan, stored: EarlierResults | None = None) -> None:
        self.plan = plan
        self._stored = stored
        self._begun: set[str] = set()
        self._readouts = ReadoutCounts()
        self._forms = Forms()
        self._pace = plan.pace
        self._left = TimeLeft(Weights(0.0, 0.0, 0.0, 0.0))

    def begin(self, measures: Iterable[Measure[Any]]) -> Wavefront:
        """Return what runs the blocks, when these measures have looked at their references; each looks once."""
        plan = self.plan
        for measure in measures:
            if measure.name not in self._begun:
                with told_by_name(measure, "read_reference()"):
                    measure.read_reference(self._wave, plan.references.get(measure.name, plan.prompts))
                self._begun.add(measure.name)
        return self._wave

    def compute(self, missing: Sequence[int], write: Write, progress: bool) -> None:
        """Compute shards.

        Args:
            missing: their indices.
            write: takes the results of each as they come.
            progress: show a progress bar.
        """
        if not missing:
            return
        plan = self.plan
        shards = [self._shard(index) for index in missing]
        units = [(shard, unit) for shard in shards for unit in shard.units if unit.measures]
        # a reference costs forward passes, and a run that grows may have all results of its measure
        needed = {measure.name for _, unit in units for measure in unit.measures}
        self.begin([measure for measure in plan.measures if measure.name in needed])
        self._pace = _pace_of_machine(plan) if progress and units else plan.pace
        to_do = [self._weights(unit) for _, unit in units]
        total = sum(
            plan.weights_of(range(first, last), plan.measures, self._pace).seconds for first, last in plan.shards
        )
        done = total - sum(weights.seconds for weights in to_do)
        self._left = TimeLeft(_sum_weights(to_do))
        with ProgressBar(f"surveying {without_folders(plan.model.name)}", total, done, quiet=not progress) as bar:
            for shard in shards:
                shard.pieces += [(unit.picked, unit.stored) for unit in shard.units if not unit.measures]
                self._write(write, shard)
            for convoy in self._convoys(units):
                with self._memory_explained([unit for _, unit in convoy]):
                    results = self._results_of([unit for _, unit in convoy], bar, done)
                    for (shard, unit), result in zip(convoy, results, strict=True):
                        shard.pieces.append((unit.picked, self._in_order(unit.stored, result)))
                        done += self._weights(unit).seconds
                        self._write(write, shard)
                bar.advance_to(done, self._left.seconds)

    @cached_property
    def _wave(self) -> Wavefront:
        """What runs the blocks, in calls of the size that was asked for, or that memory allows."""
        plan = self.plan
        device, blocks, memory = plan.model.device, plan.model.blocks, plan.memory
        work = plan.work_of(range(len(plan.prompts)), plan.measures)
        largest = max(range(len(work)), key=lambda number: work[number].tokens * (1 + work[number].rows))
        state_bytes = plan.state_bytes([largest], plan.measures)
        tokens = plan.call_tokens or call_size(
            plan.model.anatomy,
            len(plan.prompts[largest]),
            state_bytes,
            memory,
            device,
            0 if blocks is None else blocks.most_bytes,
        )
        return Wavefront(
            plan.model.anatomy,
            tails=plan.model.checks.tails,
            call_tokens=tokens,
            replacement_bytes=None if memory is None else min(memory // 4, default_room(device)),
            # logits are read while the rows' final states are still there, which take half of it or one prompt's
            read_bytes=None if memory is None else memory - max(state_bytes, memory // 2),
        )

    @contextmanager
    def _memory_explained(self, units: Sequence[_Unit]) -> Iterator[None]:
        """Turn an error of memory inside into one with numbers.

        Calls of blocks, products of readouts and groups of replaced rows have been halved by then, and refuse by
        themselves. What comes here was asked for outside them, by the rows' buffer or a measure's own arrays.
        """
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            picked = sorted(number for unit in units for number in unit.picked)
            longest = max(len(self.plan.prompts[number]) for number in picked)
            what = f"What is measured of prompts {picked[0]} to {picked[-1]}, of up to {longest} tokens,"
            message = f"{out_of_memory(what, self.plan.model.device)} With out= (--out) finished shards are kept."
            raise ModelError(message) from error

    def _shard(self, index: int) -> _Shard:
        """Return a shard's batches, each with the measures that are still to be computed."""
        first, last = self.plan.cut.edges[index]
        cut = partial(self.plan.batches, self._wave.policy.tokens)
        stored = StoredShard() if self._stored is None else self._stored.shard(first, last, cut)
        units = []
        for picked in cut(range(first, last), self.plan.measures):
            of_batch = stored.batches.get(tuple(picked), {})
            present = {*stored.whole, *of_batch}
            lacking = tuple(measure for measure in self.plan.observing if measure.name not in present)
            units.append(_Unit(picked, lacking, of_batch))
        return _Shard(index, units, stored.whole)

    def _write(self, write: Write, shard: _Shard) -> None:
        """Write a shard when all its batches are done, and let go of them."""
        if len(shard.pieces) < len(shard.units):
            return
        pieces, shard.pieces = shard.pieces, []
        if any(unit.stored for unit in shard.units):
            # stored ones come from a file, where texts and attributes have the form that the others get there
            pieces = [
                (picked, {name: canonical(dataset, name) for name, dataset in results.items()})
                for picked, results in pieces
            ]
        merged = merge([results for _, results in pieces], [number for picked, _ in pieces for number in picked])
        write(shard.index, self._in_order(shard.stored, merged))

    def _in_order(self, stored: Datasets, computed: Datasets) -> Datasets:
        """Return stored and computed results of the same prompts as if all of them had been computed together."""
        names = [measure.name for measure in self.plan.observing]
        both = {**stored, **computed}
        if NOISE in stored and NOISE in computed:
            both[NOISE] = joined_noise([stored[NOISE], computed[NOISE]], names)
        return {name: both[name] for name in (*names, NOISE) if name in both}

    def _convoys(self, units: Sequence[tuple[_Shard, _Unit]]) -> list[list[tuple[_Shard, _Unit]]]:
        """Gather batches, each with its shard, that share a visit of every block; alone where none is streamed."""
        model = self.plan.model
        if model.blocks is None:
            return [[unit] for unit in units]
        # the other half is for calls of blocks and for readouts
        room = (self.plan.memory or free_bytes(model.device) or 0) // 2
        picked, measures = [unit.picked for _, unit in units], [unit.measures for _, unit in units]
        return self.plan.convoys(units, picked, measures, [shard.index for shard, _ in units], room)

    def _results_of(self, units: Sequence[_Unit], bar: ProgressBar, done: float) -> Iterator[dict[str, xr.Dataset]]:
        """Yield the results of some batches, one after another, from one visit of each block."""
        plan = self.plan
        convoy = []
        for unit in units:
            prompts = [plan.prompts[number] for number in unit.picked]
            batch = Batch.of(
                [prompt.ids for prompt in prompts],
                plan.model.device,
                [prompt.answer_tokens for prompt in prompts],
            )
            probes = {measure.name: self._probe(measure, batch, unit.picked) for measure in unit.measures}
            for probe in probes.values():
                probe.meet_probes(probes)
            convoy.append((unit, batch, probes))
        weights = _sum_weights([self._weights(unit) for unit in units])
        progress = ConvoyProgress(bar, done, weights, self._readouts, self._left)
        seconds_after = 0.0
        with progress.watch(self._wave.reader):
            self._wave.run_convoy([(batch, list(probes.values())) for _, batch, probes in convoy], progress.visit)
            # one after another out of the list, so that the states of a batch are freed when its results are there
            while convoy:
                unit, batch, probes = convoy.pop(0)
                for measure in unit.measures:
                    after = plan.weights_of(unit.picked, [measure], self._pace).after
                    probes[measure.name].after(self._wave, partial(_advance, progress, seconds_after, after))
                    seconds_after += after
                yield self._results(unit, probes)
        progress.finish()

    def _weights(self, unit: _Unit) -> Weights:
        """Return what a batch costs by kind of work, by the rates of this machine where they were measured."""
        return self.plan.weights_of(unit.picked, unit.measures, self._pace)

    def _probe(self, measure: Measure[Any], batch: Batch, picked: Sequence[int]) -> MeasureProbe:
        with told_by_name(measure, "probe()"):
            probe = measure.probe(self.plan.facts, batch, picked)
        return watched(measure, probe)

    def _results(self, unit: _Unit, probes: Mapping[str, MeasureProbe]) -> dict[str, xr.Dataset]:
        """Return a batch's results, with the labels of its prompts."""
        prompts = self.plan.prompts
        results = {}
        for measure in unit.measures:
            result = results[measure.name] = require_dataset(measure, probes[measure.name].result())
            require_shapes(measure, result, self.plan.facts, unit.picked)
            self._forms.require_same(measure, result)
        noise = noise_by_prompt(probes)
        if noise is not None:
            results[NOISE] = noise
        require_by_prompt(results, len(unit.picked))
        names = {name: {*dataset.variables, *dataset.dims} for name, dataset in results.items()}
        require_free(prompts.coords(unit.picked), names)
        return {name: with_labels(dataset, prompts, unit.picked) for name, dataset in results.items()}


def _advance(progress: ConvoyProgress, before: float, seconds: float, share: float) -> None:
    progress.compute_after(before + seconds * share)


def _pace_of_machine(plan: SurveyPlan) -> Pace:
    """Return the rates by which the time left is estimated: measured ones, where a survey is long enough to wait for.

    Readouts come when all blocks are done, and until then only a measurement says how long they take.
    """
    nominal = nominal_rates(plan.model.device)
    is_plain = plan.model.blocks is None and plan.model.states is None and size() == 1
    if plan.pace != Pace.of(nominal) or sum(plan.work) < _WORTH_MEASURING or not is_plain:
        return plan.pace
    tokens = sum(len(prompt) for prompt in plan.prompts) // len(plan.prompts)
    # the numbers that it tries must not move anybody's random state
    with torch.random.fork_rng(devices=[]):
        return Pace.of(measure_rates(plan.model, max(1, tokens), plan.model.device))


def _sum_weights(parts: Sequence[Weights]) -> Weights:
    """Return what some batches cost together, by kind of work."""
    return Weights(*(sum(getattr(part, field.name) for part in parts) for field in fields(Weights)))
