"""A survey that is decided: what is computed, in which shards and batches, and what is derived from all of it."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import without_folders
from bathyscope.errors import ModelError, is_out_of_memory
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.guard import require_dataset, told_by_name, warn_of_nan, watched
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model, adapters_of, config_hash
from bathyscope.model.memory import free_bytes, out_of_memory
from bathyscope.prompts.label_checks import require_free
from bathyscope.prompts.prompts import Prompts, prompts_hash
from bathyscope.runs.canonical import canonical
from bathyscope.runs.growth import Growth
from bathyscope.runs.merge import merge, require_by_prompt
from bathyscope.runs.parts import Part
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE, encode_prompts
from bathyscope.runs.run import Run, open_run
from bathyscope.runs.shards import Datasets
from bathyscope.runs.writer import RunWriter
from bathyscope.surveying.assembly import NOISE, joined_noise, noise_by_prompt, noise_floor, with_labels, with_summary
from bathyscope.surveying.cutting import Shards
from bathyscope.surveying.growing import Kept, There
from bathyscope.surveying.sharding import batch_room, call_size, convoys_of
from bathyscope.surveying.work import PromptWork, WorkCounter
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.replace import default_room

_LATER_OPTIONS = ("read_tokens", "output_reductions")
"""Options of measures that earlier runs do not tell; None = what was done then."""


@dataclass(frozen=True)
class _Unit:
    """A batch: prompts that are computed together, by their numbers.

    Args:
        measures: those that are still to be computed.
        kept: results of the others.
    """

    picked: list[int]
    measures: tuple[Measure[Any], ...]
    kept: Datasets


@dataclass
class _Shard:
    """A shard in work.

    Args:
        index: in the plan.
        units: its batches.
        whole: results of all its prompts that are kept.
        pieces: prompts and results of the batches that are there.
    """

    index: int
    units: list[_Unit]
    whole: Datasets
    pieces: list[tuple[list[int], Datasets]] = field(default_factory=list)


@dataclass(frozen=True)
class SurveyPlan:
    """Everything that is decided before compute begins."""

    model: Model
    facts: ModelFacts
    prompts: Prompts
    measures: tuple[Measure[Any], ...]
    seed: int
    preset: str | None
    batch_tokens: int
    cut: Shards
    references: Mapping[str, Prompts]
    memory: int | None = None
    call_tokens: int | None = None

    @property
    def shards(self) -> list[tuple[int, int]]:
        """[first, last) prompts of each shard."""
        return list(self.cut.edges)

    @property
    def notes(self) -> dict[str, Any]:
        """What a reader of the run should know beside its configuration."""
        checks = self.model.checks
        # how rows that begin late are computed
        tails = "tail rows on shared keys and values" if checks.tails else f"full rows: {checks.tail_reason}"
        return {
            "threads": torch.get_num_threads(),
            "tails": tails,
            "parallel": self.model.anatomy.parallel,
            # TF32 is off while a model is measured
            "float32_products": "float32",
            # how a mixture's experts are multiplied, which the checks at load have seen
            "experts": getattr(self.model.hf.config, "_experts_implementation", None),
            "memory": self.memory,
            "call_tokens": self.call_tokens,
        }

    def identity(self) -> dict[str, Any]:
        """The configuration that a resumed run must share."""
        hf, device = self.model.hf, self.model.device
        return {
            "model": self.model.name + (f" ({self.model.schedule})" if self.model.schedule else ""),
            "revision": self.model.revision,
            "weight_hash": self.model.weight_hash,
            "tokenizer_hash": self.prompts.tokenizer_hash,
            "prompt_hash": self.prompts.hash,
            "dataset": self.prompts.dataset,
            "prompts": len(self.prompts),
            "measures": {m.name: self._options(m) for m in self.measures},
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attention": str(getattr(hf.config, "_attn_implementation", None)),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "seed": self.seed,
            "preset": self.preset,
            "batch_tokens": self.batch_tokens,
            "plan": self.shards,
            "pace": self.cut.kept_pace,
            "noise": "control row in every batch against the plain forward",
            "n_blocks": self.model.n_blocks,
            "config_hash": config_hash(hf),
            "adapters": adapters_of(hf),
            "keep_text": self.facts.keeps_text,
            "schedule": self.model.schedule,
            "gguf": None if self.model.gguf is None else self.model.gguf.identity(),
        }

    def _options(self, measure: Measure[Any]) -> dict[str, Any]:
        options: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(measure.options), default=list))
        # so that runs from before there were these options are resumed
        options = {name: value for name, value in options.items() if value is not None or name not in _LATER_OPTIONS}
        if measure.name not in MEASURES:  # a name that no option can have
            options["class"] = f"{type(measure).__module__}:{type(measure).__qualname__}"
        if measure.name in self.references:
            options["reference_hash"] = self.references[measure.name].hash
        return options

    def carry_out(
        self,
        out: Path | None,
        command: str | None = None,
        progress: bool = True,
        part: Part | None = None,
        grow: bool = False,
    ) -> Run:
        """The run, or what of it is there already; of a part, which needs a folder, the unfinished run.

        Args:
            grow: a smaller run in the folder becomes this one.
        """
        mine = range(len(self.shards)) if part is None else part.shards(len(self.shards))
        record = {"command": command, "notes": self.notes}
        growth = None if out is None else Growth.of(out, self.identity(), self._hash_of_first, grow=grow)
        opened: AbstractContextManager[RunWriter] = (
            RunWriter.open(out, self.identity(), record) if growth is None else growth.writer(record)
        )
        run = None
        with opened as writer:
            if writer.is_finished:
                run = writer.run()
            else:
                kept = None if growth is None else Kept(growth, self.facts, self.prompts, self.measures, self.seed)
                writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(self.prompts, self.facts.keeps_text))
                missing = [index for index in writer.missing if index in mine]
                self.compute(missing, writer.write, progress, kept=kept)
                if part is None:
                    run = writer.finish(self.derived(writer.merged()))
        if run is not None and growth is None:
            return run
        assert out is not None
        return open_run(out, partial=part is not None)

    def _hash_of_first(self, count: int) -> str:
        return self.prompts.hash if count == len(self.prompts) else prompts_hash(self.prompts[:count])

    def begin(self) -> Wavefront:
        """What computes shards, when measures have looked at their references."""
        return self._begun(self._wave(), self.measures)

    def _wave(self) -> Wavefront:
        """What runs the blocks, in calls of the size that was asked for, or that memory allows."""
        anatomy, device = self.model.anatomy, self.model.device
        work = self.work_of(range(len(self.prompts)), self.measures)
        largest = max(range(len(work)), key=lambda i: work[i].tokens * (1 + work[i].rows))
        state_bytes = self.state_bytes([largest], self.measures)
        tokens = self.call_tokens or call_size(
            anatomy,
            len(self.prompts[largest]),
            state_bytes,
            self.memory,
            device,
            0 if self.model.blocks is None else self.model.blocks.most_bytes,
        )
        room = None if self.memory is None else min(self.memory // 4, default_room(device))
        return Wavefront(
            anatomy,
            tails=self.model.checks.tails,
            call_tokens=tokens,
            replacement_bytes=room,
            # logits are read while the rows' final states are still there, which take half of it or one prompt's
            read_bytes=None if self.memory is None else self.memory - max(state_bytes, self.memory // 2),
        )

    def _begun(self, wave: Wavefront, measures: Iterable[Measure[Any]]) -> Wavefront:
        for measure in measures:
            with told_by_name(measure, "begin()"):
                measure.begin(wave, self.references.get(measure.name, self.prompts))
        return wave

    def compute(
        self,
        missing: Sequence[int],
        write: Callable[[int, Datasets], None],
        progress: bool,
        wave: Wavefront | None = None,
        kept: Kept | None = None,
    ) -> None:
        """Computes shards.

        Args:
            write: takes the results of each as they come.
            wave: what ``begin`` gave, where shards are computed in several calls.
            kept: what a smaller run has of it, which is taken from there.
        """
        if not missing:
            return
        begun = wave is not None
        wave = wave or self._wave()
        shards = [self._shard(wave, index, kept) for index in missing]
        units = [(shard, unit) for shard in shards for unit in shard.units if unit.measures]
        if not begun:
            needed = {measure.name for _, unit in units for measure in unit.measures}
            self._begun(wave, [measure for measure in self.measures if measure.name in needed])
        total = sum(self.work)
        done = float(total - sum(self._weight(unit.picked, unit.measures) for _, unit in units))
        with ProgressBar(f"surveying {without_folders(self.model.name)}", total, done, quiet=not progress) as bar:
            for shard in shards:
                shard.pieces += [(unit.picked, unit.kept) for unit in shard.units if not unit.measures]
                self._write(write, shard)
            for convoy in self._convoys(units):
                with self._memory_told([unit for _, unit in convoy]):
                    results = self._convoy(wave, [unit for _, unit in convoy], bar, done)
                    for (shard, unit), result in zip(convoy, results, strict=True):
                        shard.pieces.append((unit.picked, self._in_order(unit.kept, result)))
                        done += self._weight(unit.picked, unit.measures)
                        self._write(write, shard)
                bar.advance_to(done)

    @contextmanager
    def _memory_told(self, units: Sequence[_Unit]) -> Iterator[None]:
        """Inside, memory that does not suffice is told with its numbers; calls of blocks have been halved by then."""
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            picked = sorted(number for unit in units for number in unit.picked)
            longest = max(len(self.prompts[number]) for number in picked)
            what = f"What is measured of prompts {picked[0]} to {picked[-1]}, of up to {longest} tokens,"
            message = f"{out_of_memory(what, self.model.device)} Finished shards are kept."
            raise ModelError(message) from error

    def _shard(self, wave: Wavefront, index: int, kept: Kept | None) -> _Shard:
        """A shard's batches, each with the measures that are still to be computed."""
        first, last = self.shards[index]
        cut = partial(self.batches, wave.policy.tokens)
        there: There = ({}, {}) if kept is None else kept.shard(first, last, cut)
        whole, batches = there
        units = []
        for picked in cut(range(first, last), self.measures):
            own = batches.get(tuple(picked), {})
            lacking = [m for m in self.measures if not m.derived and m.name not in {**whole, **own}]
            units.append(_Unit(picked, tuple(lacking), own))
        return _Shard(index, units, whole)

    def _write(self, write: Callable[[int, Datasets], None], shard: _Shard) -> None:
        """Writes a shard when all its batches are there, and lets go of them."""
        if len(shard.pieces) < len(shard.units):
            return
        pieces, shard.pieces = shard.pieces, []
        if any(unit.kept for unit in shard.units):
            # kept ones come from a file, where texts and attributes have the form that the others get there
            pieces = [(own, {name: canonical(one, name) for name, one in found.items()}) for own, found in pieces]
        merged = merge([found for _, found in pieces], [number for own, _ in pieces for number in own])
        write(shard.index, self._in_order(shard.whole, merged))

    def _in_order(self, kept: Datasets, found: Datasets) -> Datasets:
        """Kept results and computed ones of the same prompts, as if all of them had been computed together."""
        names = [m.name for m in self.measures if not m.derived]
        both = {**kept, **found}
        if NOISE in kept and NOISE in found:
            both[NOISE] = joined_noise([kept[NOISE], found[NOISE]], names)
        return {name: both[name] for name in (*names, NOISE) if name in both}

    def derived(self, merged: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
        """Run-level results: derived measures, and the noise floor over all prompts."""
        found: dict[str, xr.Dataset] = {}
        for measure in self.measures:
            with told_by_name(measure, "summarise()"):
                own = None if measure.derived else measure.summarise(self.facts, merged[measure.name], self.seed)
            if not measure.derived:
                warn_of_nan(measure, merged[measure.name])
            if own is not None:
                found[measure.name] = with_summary(merged[measure.name], own)
        for measure in self.measures:  # one derived measure may need another
            if measure.derived:
                with told_by_name(measure, "derive()"):
                    found[measure.name] = measure.derive(self.facts, {**merged, **found}, self.seed)
        if NOISE in merged:
            found[NOISE] = noise_floor(merged[NOISE])
        return found

    @property
    def work(self) -> list[float]:
        """Of each shard, in tokens × rows."""
        return [self._weight(range(first, last), self.measures) for first, last in self.shards]

    def _weight(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> float:
        return sum(work.tokens * (1 + work.rows + work.rows_after) for work in self.work_of(numbers, measures))

    def _most_rows(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> float:
        """Return the rows of the prompt that has most, its baseline among them."""
        return 1 + max(work.rows for work in self.work_of(numbers, measures))

    def work_of(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> list[PromptWork]:
        """Count the work of prompts with some of the measures."""
        counter = WorkCounter(self.facts, measures)
        return [counter.of(number, len(self.prompts[number])) for number in numbers]

    def batches(
        self,
        call_tokens: int,
        indices: range,
        measures: Sequence[Measure[Any]],
        device: torch.device | None = None,
    ) -> list[list[int]]:
        """Return the prompts of a shard that are computed together, as their numbers.

        Args:
            call_tokens: in one call of a block.
            device: where they would be computed; None = where the model is.
        """
        stretches = self.cut.within(indices.start, indices.stop)
        return [batch for stretch in stretches for batch in self._batches(call_tokens, stretch, measures, device)]

    def _batches(
        self, call_tokens: int, indices: range, measures: Sequence[Measure[Any]], device: torch.device | None
    ) -> list[list[int]]:
        lengths = [len(self.prompts[i]) for i in indices]
        rows = max(1, round(self._most_rows(indices, measures)))
        place = device or self.model.device
        room = batch_room(self.model.anatomy, self.model.dtype, call_tokens, place, self.memory)
        planned = plan_batches(lengths, rows, room, self.model.anatomy.equal_lengths)
        return [[indices[i] for i in batch] for batch in planned]

    def _convoys(self, units: Sequence[tuple[_Shard, _Unit]]) -> list[list[tuple[_Shard, _Unit]]]:
        """Batches, each with its shard, that share one visit of every block: one, but where blocks are streamed."""
        if self.model.blocks is None:
            return [[unit] for unit in units]
        sizes = [self.state_bytes(unit.picked, unit.measures) for _, unit in units]
        room = (self.memory or free_bytes(self.model.device) or 0) // 2
        return convoys_of(units, sizes, [shard.index for shard, _ in units], room)

    def state_bytes(self, picked: Sequence[int], measures: Sequence[Measure[Any]]) -> int:
        """What the rows of a batch take between blocks."""
        lengths = {len(self.prompts[i]) for i in picked}
        rows = 2 * self._most_rows(picked, measures)
        keeping = sum(measure.keeps_boundaries for measure in measures)
        # without pads among them, all keep the same tensors
        boundaries = keeping if len(lengths) > 1 else min(keeping, 1)
        # a row that departs halfway ends as one state
        states = len(picked) * (rows + boundaries * (self.model.n_blocks + 1))
        return int(states * max(lengths) * self.model.anatomy.width * self.model.dtype.itemsize)

    def _convoy(
        self, wave: Wavefront, units: Sequence[_Unit], bar: ProgressBar, done: float
    ) -> Iterator[dict[str, xr.Dataset]]:
        """The results of some batches, one after another, from one visit of each block."""
        convoy = []
        for unit in units:
            prompts = [self.prompts[i] for i in unit.picked]
            batch = Batch.of([p.ids for p in prompts], self.model.device, [p.answer_tokens for p in prompts])
            probes = {m.name: self._probe(m, batch, unit.picked) for m in unit.measures}
            for probe in probes.values():
                probe.beside(probes)
            convoy.append((batch, probes))
        work = [self.work_of(unit.picked, unit.measures) for unit in units]
        in_wave = sum(one.tokens * (1 + one.rows) for prompts in work for one in prompts)
        wave.run_convoy(
            [(batch, list(probes.values())) for batch, probes in convoy],
            lambda block, blocks: bar.advance_to(done + in_wave * block / blocks),
        )
        done += in_wave
        while convoy:  # what a batch has kept is let go when its results are there
            (batch, probes), unit = convoy.pop(0), units[len(units) - len(convoy) - 1]
            for measure in unit.measures:
                work_after = sum(one.tokens * one.rows_after for one in self.work_of(unit.picked, [measure]))
                probes[measure.name].after(wave, partial(_advance, bar, done, work_after))
                done += work_after
            yield self._results(unit, probes)

    def _probe(self, measure: Measure[Any], batch: Batch, picked: Sequence[int]) -> MeasureProbe:
        with told_by_name(measure, "probe()"):
            probe = measure.probe(self.facts, batch, picked)
        return watched(measure, probe)

    def _results(self, unit: _Unit, probes: Mapping[str, MeasureProbe]) -> dict[str, xr.Dataset]:
        picked = unit.picked
        found = {m.name: require_dataset(m, probes[m.name].result()) for m in unit.measures}
        noise = noise_by_prompt(probes)
        if noise is not None:
            found[NOISE] = noise
        require_by_prompt(found, len(picked))
        require_free(self.prompts.coords(picked), {name: {*one.variables, *one.dims} for name, one in found.items()})
        return {name: with_labels(dataset, self.prompts, picked) for name, dataset in found.items()}


def _advance(bar: ProgressBar, done: float, weight: float, share: float) -> None:
    bar.advance_to(done + weight * share)
