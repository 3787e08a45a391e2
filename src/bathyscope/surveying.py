"""A survey planned and carried out: one model, one prompt set, any measures, in one pass over the blocks a batch."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
import xarray as xr

from bathyscope.assembly import (
    noise_by_prompt,
    noise_floor,
    require_by_prompt,
    require_free_labels,
    with_summary,
)
from bathyscope.errors import warn
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.registry import DEFAULT, MEASURES, chosen, make
from bathyscope.model import AnyModel, Model, config_hash, free_bytes, loaded
from bathyscope.model.reading import tokenized
from bathyscope.papers.presets import Preset
from bathyscope.papers.presets import preset as preset_of
from bathyscope.progress import ProgressBar
from bathyscope.prompts.label_checks import require_free
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source
from bathyscope.sharding import batch_room, call_size, convoys_of, shard_tokens, shards_of
from bathyscope.store.merge import PROMPT, merge
from bathyscope.store.parts import Part, PartWriter
from bathyscope.store.prompts import PROMPTS, PROMPTS_FILE, encode_prompts
from bathyscope.store.run import Run, open_run
from bathyscope.store.writer import RunWriter
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.replace import default_room

Asked = str | type[Measure[Any]] | Measure[Any]
Measures = Sequence[Asked] | Asked | None


class ShardWriter(Protocol):
    """What takes the results of shards: the writer of a run, or of a part of it."""

    @property
    def missing(self) -> list[int]:
        """Shards that are still to be computed."""

    def write(self, index: int, datasets: Mapping[str, xr.Dataset]) -> None:
        """Keeps the results of a shard."""


@dataclass(frozen=True)
class Survey:
    """What is asked of a model and prompts, whichever they are: the same of a model and of its controls.

    The arguments are those of ``survey``.
    """

    measures: Measures = None
    seed: int | None = None
    batch_tokens: int | None = None
    preset: str | None = None
    memory: int | None = None
    call_tokens: int | None = None
    beyond_context: bool | None = None
    add_special_tokens: bool = True
    chat: bool = False
    keep_text: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def declared(self) -> dict[str, tuple[Any, Any]]:
        """Name → each measure and its options, those that others require included.

        Raises:
            OptionError: no such measure, option or preset.
        """
        paper: Preset | None = preset_of(self.preset) if self.preset else None
        return chosen(_named(self.measures, paper), self.options, paper.options if paper else None)

    def plan(self, model: AnyModel, prompts: Source | Prompts) -> SurveyPlan:
        """All decisions and checks, before any compute (see ``survey``)."""
        paper: Preset | None = preset_of(self.preset) if self.preset else None
        named = _named(self.measures, paper)
        measures = tuple(make(one, own) for one, own in self.declared.values())
        seed = self.seed if self.seed is not None else paper.seed if paper else 0
        ready = loaded(model)
        found = self._read(ready, prompts, seed, self.beyond_context)
        facts = ModelFacts(ready.anatomy, ready.checks, found.tokenizer, self.keep_text)
        by_name = {one if isinstance(one, str) else one.name for one in named}
        measures = _possible(measures, facts, found, {*by_name, *self.options})
        require_free(found, {m.name: _names(m) for m in measures if not m.derived})
        for measure in measures:
            if facts.has_weights or not measure.looks_at_weights:
                measure.prepare(facts, found, seed)
        # a measure's own further prompts, under the same rules as the survey's
        references = {m.name: self._read(ready, m.reference, seed) for m in measures if m.reference is not None}
        tokens = self.batch_tokens or shard_tokens(facts, measures, max(found.lengths))
        limits = (self.memory, self.call_tokens)
        return SurveyPlan(ready, facts, found, measures, seed, self.preset, tokens, references, *limits)

    def _read(self, model: Model, prompts: Source | Prompts, seed: int, beyond_context: bool | None = None) -> Prompts:
        return tokenized(
            model,
            prompts,
            seed=seed,
            beyond_context=beyond_context,
            add_special_tokens=self.add_special_tokens,
            chat=self.chat,
        )


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
    references: Mapping[str, Prompts]
    memory: int | None = None
    call_tokens: int | None = None

    @property
    def shards(self) -> list[tuple[int, int]]:
        """[first, last) prompts of each shard: consecutive prompts of about ``batch_tokens`` tokens."""
        return shards_of(self.prompts.lengths, self.batch_tokens)

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
        hf = self.model.hf
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "weight_hash": self.model.weight_hash,
            "tokenizer_hash": self.prompts.tokenizer_hash,
            "prompt_hash": self.prompts.hash,
            "dataset": self.prompts.dataset,
            "prompts": len(self.prompts),
            "measures": {m.name: self._options(m) for m in self.measures},
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attention": str(getattr(hf.config, "_attn_implementation", None)),
            "device": _device_name(self.model.device),
            "seed": self.seed,
            "preset": self.preset,
            "batch_tokens": self.batch_tokens,
            "plan": self.shards,
            "noise": "control row in every batch against the plain forward",
            "n_blocks": self.model.n_blocks,
            "config_hash": config_hash(hf),
            "keep_text": self.facts.keeps_text,
        }

    def _options(self, measure: Measure[Any]) -> dict[str, Any]:
        options: dict[str, Any] = _plain(dataclasses.asdict(measure.options))
        if measure.name not in MEASURES:  # a name that no option can have
            options["class"] = f"{type(measure).__module__}:{type(measure).__qualname__}"
        if measure.name in self.references:
            options["reference_hash"] = self.references[measure.name].hash
        return options

    def carry_out(
        self, out: str | Path | None, command: str | None = None, progress: bool = True, part: Part | None = None
    ) -> Run:
        """The run, or what of it is there already; of a part, which needs a folder, the unfinished run."""
        shards = None if part is None else part.shards(len(self.shards))
        record = {"command": command, "notes": self.notes}
        with RunWriter.open(out, self.identity(), record) as writer:
            if writer.is_finished:
                return writer.run()
            writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(self.prompts, self.facts.keeps_text))
            self.compute(writer if shards is None else PartWriter(writer, shards), progress)
            if shards is None:
                return writer.finish(self.derived(writer.merged()))
        assert out is not None
        return open_run(out, partial=True)

    def begin(self) -> Wavefront:
        """What computes shards, when measures have looked at their references."""
        wave = self._wave()
        for measure in self.measures:
            measure.begin(wave, self.references.get(measure.name, self.prompts))
        return wave

    def compute(self, writer: ShardWriter, progress: bool, wave: Wavefront | None = None) -> None:
        """Computes and writes every missing shard.

        Args:
            wave: what ``begin`` gave, where shards are computed in several calls.
        """
        missing, weights = writer.missing, self.work
        if not missing:
            return
        done = float(sum(weights) - sum(weights[i] for i in missing))
        wave = wave or self.begin()
        with ProgressBar(f"surveying {self.model.name}", sum(weights), done, quiet=not progress) as bar:
            found: dict[int, list[tuple[list[int], dict[str, xr.Dataset]]]] = {index: [] for index in missing}
            batches = {index: self._batches(wave, range(*self.shards[index])) for index in missing}
            units = [(index, picked) for index in missing for picked in batches[index]]
            for convoy in self._convoys(units):
                results = self._convoy(wave, [picked for _, picked in convoy], bar, done)
                for (index, picked), result in zip(convoy, results, strict=True):
                    found[index].append((picked, result))
                    done += sum(self._weight(len(self.prompts[i])) for i in picked)
                    if len(found[index]) == len(batches[index]):
                        pieces = found.pop(index)
                        writer.write(index, merge([r for _, r in pieces], [i for own, _ in pieces for i in own]))
                bar.advance_to(done)

    def derived(self, merged: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
        """Run-level results: derived measures, and the noise floor over all prompts."""
        found: dict[str, xr.Dataset] = {}
        for measure in self.measures:
            own = None if measure.derived else measure.summarise(self.facts, merged[measure.name], self.seed)
            if own is not None:
                found[measure.name] = with_summary(merged[measure.name], own)
        for measure in self.measures:  # one derived measure may need another
            if measure.derived:
                found[measure.name] = measure.derive(self.facts, {**merged, **found}, self.seed)
        if "noise" in merged:
            found["noise"] = noise_floor(merged["noise"])
        return found

    @property
    def work(self) -> list[float]:
        """Of each shard, in tokens × rows."""
        return [sum(self._weight(len(p)) for p in self.prompts[first:last]) for first, last in self.shards]

    def _weight(self, tokens: int) -> float:
        return tokens * (self._rows(tokens) + self._rows_after(tokens))

    def _rows_after(self, tokens: int) -> float:
        return sum(m.rows_after(self.facts, tokens) for m in self.measures)

    def _rows(self, tokens: int) -> float:
        return 1 + sum(m.rows_per_prompt(self.facts, tokens) for m in self.measures)

    def _batches(self, wave: Wavefront, indices: range) -> list[list[int]]:
        """Prompts of a shard that are computed together, as their numbers."""
        lengths = [len(self.prompts[i]) for i in indices]
        rows = max(1, round(self._rows(max(lengths))))
        room = batch_room(self.model.anatomy, self.model.dtype, wave.policy.tokens, self.model.device, self.memory)
        planned = plan_batches(lengths, rows, room, self.model.anatomy.equal_lengths)
        return [[indices[i] for i in batch] for batch in planned]

    def _convoys(self, units: Sequence[tuple[int, list[int]]]) -> list[list[tuple[int, list[int]]]]:
        """Batches, each with its shard, that share one visit of every block: one, but where blocks are streamed."""
        if self.model.blocks is None:
            return [[unit] for unit in units]
        sizes = [self._state_bytes(picked) for _, picked in units]
        room = (self.memory or free_bytes(self.model.device) or 0) // 2
        return convoys_of(units, sizes, [index for index, _ in units], room)

    def _wave(self) -> Wavefront:
        """What runs the blocks, in calls of the size that was asked for, or that memory allows."""
        anatomy, device = self.model.anatomy, self.model.device
        longest = max(range(len(self.prompts)), key=lambda i: len(self.prompts[i]))
        tokens = self.call_tokens or call_size(
            anatomy, len(self.prompts[longest]), self._state_bytes([longest]), self.memory, device
        )
        room = None if self.memory is None else min(self.memory // 4, default_room(device))
        return Wavefront(anatomy, tails=self.model.checks.tails, call_tokens=tokens, replacement_bytes=room)

    def _state_bytes(self, picked: Sequence[int]) -> int:
        longest = max(len(self.prompts[i]) for i in picked)
        # a row that departs halfway ends as one state; the lens keeps all boundaries
        states = len(picked) * (2 * self._rows(longest) + 2 * (self.model.n_blocks + 1))
        return int(states * longest * self.model.anatomy.width * self.model.dtype.itemsize)

    def _convoy(
        self, wave: Wavefront, batches: Sequence[Sequence[int]], bar: ProgressBar, done: float
    ) -> Iterator[dict[str, xr.Dataset]]:
        """The results of some batches, one after another, from one visit of each block."""
        by_name = {m.name: m for m in self.measures if not m.derived}
        convoy = []
        for picked in batches:
            prompts = [self.prompts[i] for i in picked]
            batch = Batch.of([p.ids for p in prompts], self.model.device, [p.answer_tokens for p in prompts])
            probes = {name: m.probe(self.facts, batch, picked) for name, m in by_name.items()}
            for probe in probes.values():
                probe.beside(probes)
            convoy.append((batch, probes))
        in_wave = sum(n * self._rows(n) for batch, _ in convoy for n in batch.lengths)
        wave.run_convoy(
            [(batch, list(probes.values())) for batch, probes in convoy],
            lambda block, blocks: bar.advance_to(done + in_wave * block / blocks),
        )
        done += in_wave
        while convoy:  # what a batch has kept is let go when its results are there
            (batch, probes), picked = convoy.pop(0), batches[len(batches) - len(convoy) - 1]
            for name, probe in probes.items():
                own = sum(n * by_name[name].rows_after(self.facts, n) for n in batch.lengths)
                probe.after(wave, partial(_advance, bar, done, own))
                done += own
            yield self._results(picked, probes)

    def _results(self, picked: Sequence[int], probes: Mapping[str, MeasureProbe]) -> dict[str, xr.Dataset]:
        found = {name: probe.result() for name, probe in probes.items()}
        noise = noise_by_prompt(probes)
        if noise is not None:
            found["noise"] = noise
        require_by_prompt(found, len(picked))
        require_free_labels(self.prompts.coords(picked), found)
        return {name: self._with_labels(dataset, picked) for name, dataset in found.items()}

    def _with_labels(self, dataset: xr.Dataset, picked: Sequence[int]) -> xr.Dataset:
        """A batch's results with the labels of its prompts, or of those that it says it is of."""
        some = dataset[PROMPT].values.tolist() if PROMPT in dataset.coords else picked
        return dataset.assign_coords(self.prompts.coords(some))


def _names(measure: Measure[Any]) -> set[str]:
    """Names that results by prompt have, as far as the measure declares them; others are met when they are there."""
    table = measure.table or {}
    by_prompt = {name: label for name, label in table.items() if PROMPT in label.most} or table
    return {*by_prompt, *(dim for label in by_prompt.values() for dim in label.most)}


def _named(given: Measures, preset: Preset | None) -> Sequence[Asked]:
    """The measures as they were asked for."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    if given is None:
        return preset.measures if preset else DEFAULT
    return [given] if isinstance(given, Measure | type) else given


def _possible(
    made: tuple[Measure[Any], ...],
    facts: ModelFacts,
    prompts: Sequence[TokenizedPrompt],
    asked: Collection[str],
) -> tuple[Measure[Any], ...]:
    """Without the measures that this model or these prompts do not allow; one asked for by name refuses them itself.

    Args:
        asked: measures that were named or given options, as against those that "all" or another measure brings in.
    """
    checked = [m for m in made if facts.has_weights or not m.looks_at_weights]
    reasons = {m.name: m.unavailable(facts, prompts) for m in checked if m.name not in asked}
    for name, reason in reasons.items():
        if reason is not None:
            warn(f"{name} is left out: {reason}.")
    return tuple(m for m in made if reasons.get(m.name) is None)


def _advance(bar: ProgressBar, done: float, weight: float, share: float) -> None:
    bar.advance_to(done + weight * share)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _plain(options: dict[str, Any]) -> Any:
    return json.loads(json.dumps(options, default=list))
