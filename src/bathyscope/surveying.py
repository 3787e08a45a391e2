"""A survey: one model, one prompt set, any measures, in one pass over the blocks for each batch of prompts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from bathyscope.assembly import (
    noise_by_prompt,
    noise_floor,
    require_by_prompt,
    require_free_labels,
    with_summary,
)
from bathyscope.controls import controls_of
from bathyscope.errors import OptionError, warn
from bathyscope.interrupts import ended_as_interrupted
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.registry import DEFAULT, MEASURES, chosen, make
from bathyscope.model import AnyModel, Model, config_hash, loaded, measuring
from bathyscope.options import is_whole, require_whole
from bathyscope.papers.presets import Preset
from bathyscope.papers.presets import preset as preset_of
from bathyscope.progress import ProgressBar
from bathyscope.prompts.label_checks import require_free
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.reading import tokenized
from bathyscope.prompts.source import Source
from bathyscope.sharding import batch_room, shard_tokens, shards_of
from bathyscope.store.merge import PROMPT, merge
from bathyscope.store.prompts import PROMPTS, PROMPTS_FILE, encode_prompts
from bathyscope.store.run import CONTROLS, Run
from bathyscope.store.writer import RunWriter
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront

Asked = str | type[Measure[Any]] | Measure[Any]
Measures = Sequence[Asked] | Asked | None


@measuring("model")
def survey(
    model: AnyModel,
    prompts: Source | Prompts,
    measures: Measures = None,
    out: str | Path | None = None,
    seed: int | None = None,
    batch_tokens: int | None = None,
    preset: str | None = None,
    *,
    control: str | Sequence[str] | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: bool = False,
    keep_text: bool = True,
    progress: bool = True,
    command: str | None = None,
    **options: Any,
) -> Run:
    """Measures how a model uses its depth on some prompts.

    Args:
        model: what ``load`` returns or takes, measured with the weights that it has now. Threads that survey one
            model wait for each other.
        prompts: a source text (``gsm8k:10``, ``stories.txt:100``), a list of texts, ``Prompt`` objects or
            token-id lists, a ``PromptSet``, or the ``prompts`` of a run.
        measures: names, ``"all"``, or None for residual, lens, skip, tokens and effective_depth (or the preset's);
            beside names also classes derived from ``bathyscope.measures.base.Measure``, and instances of them.
        out: folder of the run; an interrupted run there is resumed. None keeps everything in memory.
        seed: of sampled positions and of resampling; None = 0, or the preset's.
        batch_tokens: tokens of prompts in one shard, the unit that is kept when a run is interrupted. None = 2048, or
            more where the model is so small that it computes them in less than some seconds.
        preset: a paper's choices as defaults.
        control: what to set beside the model, surveyed on the same prompts: ``untrained`` (the architecture freshly
            initialised), ``shuffled_blocks`` or ``shuffled_text``, each with a number of seeds if wanted
            (``untrained:3``); several separated by commas. They are ``run.controls``.
        beyond_context: prompts longer than the context the model declares: True = run them where positions
            are not looked up in a table, False = refuse; None = run those of data sets, with a warning, and
            refuse those given one by one.
        add_special_tokens: put the tokenizer's own special tokens (BOS) around texts, and BOS before windows of a text
            file; False = take texts as they stand.
        chat: write texts as the user's turn in the tokenizer's chat template, and answers as the assistant's; without
            an answer the assistant's turn is begun. Token ids stay as they are.
        keep_text: keep the text of every token with the run (``run.prompts``); token ids are always kept.
        progress: show a progress bar on standard error when it takes long.
        command: the command line to resume by, for messages.
        **options: a measure's options under its name, as a dict or its options class.

    Returns:
        The run: ``run["skip"].effect_future`` is a labelled array.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.
        StoreError: the folder belongs to another configuration, is altered, or cannot be written.
    """
    controls = controls_of(control)
    planned = partial(
        plan_survey,
        measures=measures,
        seed=seed,
        batch_tokens=batch_tokens,
        preset=preset,
        beyond_context=beyond_context,
        add_special_tokens=add_special_tokens,
        chat=chat,
        options=options,
    )
    with ended_as_interrupted():
        plan = planned(model, prompts)
        for one in controls:
            one.require(plan.model)
        carried_out = partial(_carried_out, command=command, keep_text=keep_text, progress=progress)
        run = carried_out(plan, out)
        found = {}
        for one in controls:
            folder = None if out is None else Path(out).expanduser() / CONTROLS / one.label
            found[one.label] = carried_out(planned(*one.of(plan.model, plan.prompts)), folder)
        return replace(run, controls=found) if controls else run


def _carried_out(plan: SurveyPlan, out: str | Path | None, command: str | None, keep_text: bool, progress: bool) -> Run:
    """The run of a plan, or what of it is there already."""
    plan = replace(plan, facts=replace(plan.facts, keeps_text=keep_text))
    record = {"command": command, "notes": {"threads": torch.get_num_threads(), "tails": plan.tails_note}}
    with RunWriter.open(out, plan.identity(), record) as writer:
        if writer.is_finished:
            return writer.run()
        writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(plan.prompts, keep_text))
        plan.compute(writer, progress)
        return writer.finish(plan.derived(writer.merged()))


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

    @property
    def shards(self) -> list[tuple[int, int]]:
        """[first, last) prompts of each shard: consecutive prompts of about ``batch_tokens`` tokens."""
        return shards_of(self.prompts.lengths, self.batch_tokens)

    @property
    def tails_note(self) -> str:
        """How rows that begin late are computed."""
        if self.model.checks.tails:
            return "tail rows on shared keys and values"
        return f"full rows: {self.model.checks.tail_reason}"

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
        }

    def _options(self, measure: Measure[Any]) -> dict[str, Any]:
        options: dict[str, Any] = _plain(dataclasses.asdict(measure.options))
        if measure.name not in MEASURES:  # a name that no option can have
            options["class"] = f"{type(measure).__module__}:{type(measure).__qualname__}"
        if measure.name in self.references:
            options["reference_hash"] = self.references[measure.name].hash
        return options

    def compute(self, writer: RunWriter, progress: bool) -> None:
        """Computes and writes every missing shard."""
        shards, missing = self.shards, writer.missing
        weights = [sum(self._weight(len(p)) for p in self.prompts[first:last]) for first, last in shards]
        done = float(sum(weights) - sum(weights[i] for i in missing))
        wave = Wavefront(self.model.anatomy, tails=self.model.checks.tails)
        if missing:
            for measure in self.measures:
                measure.begin(wave, self.references.get(measure.name, self.prompts))
        with ProgressBar(f"surveying {self.model.name}", sum(weights), done, quiet=not progress) as bar:
            for index in missing:
                first, last = shards[index]
                writer.write(index, self._shard(wave, range(first, last), bar, done))
                done += weights[index]
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

    def _weight(self, tokens: int) -> float:
        return tokens * (self._rows(tokens) + self._rows_after(tokens))

    def _rows_after(self, tokens: int) -> float:
        return sum(m.rows_after(self.facts, tokens) for m in self.measures)

    def _rows(self, tokens: int) -> float:
        return 1 + sum(m.rows_per_prompt(self.facts, tokens) for m in self.measures)

    def _shard(self, wave: Wavefront, indices: range, bar: ProgressBar, done: float) -> dict[str, xr.Dataset]:
        lengths = [len(self.prompts[i]) for i in indices]
        rows = max(1, round(self._rows(max(lengths))))
        room = batch_room(self.model.anatomy, self.model.dtype, wave.policy.tokens)
        batches = plan_batches(lengths, rows, room, self.model.anatomy.equal_lengths)
        pieces: list[tuple[list[int], dict[str, xr.Dataset]]] = []
        for batch in batches:
            picked = [indices[i] for i in batch]
            pieces.append((picked, self._batch(wave, picked, bar, done)))
            done += sum(self._weight(len(self.prompts[i])) for i in picked)
        return merge([found for _, found in pieces], [i for picked, _ in pieces for i in picked])

    def _batch(self, wave: Wavefront, picked: Sequence[int], bar: ProgressBar, done: float) -> dict[str, xr.Dataset]:
        prompts = [self.prompts[i] for i in picked]
        batch = Batch.of([p.ids for p in prompts], self.model.device, [p.answer_tokens for p in prompts])
        by_name = {m.name: m for m in self.measures if not m.derived}
        probes = {name: m.probe(self.facts, batch, picked) for name, m in by_name.items()}
        for probe in probes.values():
            probe.beside(probes)
        in_wave = sum(n * self._rows(n) for n in batch.lengths)
        wave.run(batch, list(probes.values()), lambda block, blocks: bar.advance_to(done + in_wave * block / blocks))
        done += in_wave
        for name, probe in probes.items():
            own = sum(n * by_name[name].rows_after(self.facts, n) for n in batch.lengths)
            probe.after(wave, partial(_advance, bar, done, own))
            done += own
        found = {name: probe.result() for name, probe in probes.items()}
        noise = noise_by_prompt(probes)
        if noise is not None:
            found["noise"] = noise
        require_by_prompt(found, len(prompts))
        require_free_labels(self.prompts.coords(picked), found)
        return {name: self._with_labels(dataset, picked) for name, dataset in found.items()}

    def _with_labels(self, dataset: xr.Dataset, picked: Sequence[int]) -> xr.Dataset:
        """A batch's results with the labels of its prompts, or of those that it says it is of."""
        some = dataset[PROMPT].values.tolist() if PROMPT in dataset.coords else picked
        return dataset.assign_coords(self.prompts.coords(some))


def plan_survey(
    model: AnyModel,
    prompts: Source | Prompts,
    measures: Measures = None,
    *,
    seed: int | None = None,
    batch_tokens: int | None = None,
    preset: str | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: bool = False,
    options: Mapping[str, Any] | None = None,
) -> SurveyPlan:
    """All decisions and checks of a survey, before any compute (see ``survey``)."""
    preset_used: Preset | None = preset_of(preset) if preset else None
    given = dict(options or {})
    asked = _named(measures, preset_used)
    made = tuple(
        make(one, own) for one, own in chosen(asked, given, preset_used.options if preset_used else None).values()
    )
    batch_tokens = None if batch_tokens is None else _checked_batch_tokens(batch_tokens)
    seed = _checked_seed(seed if seed is not None else preset_used.seed if preset_used else 0)
    ready = loaded(model)
    read = partial(tokenized, ready, seed=seed, add_special_tokens=add_special_tokens)
    found = read(prompts, beyond_context=beyond_context, chat=chat)
    facts = ModelFacts(ready.anatomy, ready.checks, found.tokenizer)
    by_name = {one if isinstance(one, str) else one.name for one in asked}
    made = _possible(made, facts, found, {*by_name, *given})
    require_free(found, {m.name: _names(m) for m in made if not m.derived})
    for measure in made:
        if facts.has_weights or not measure.looks_at_weights:
            measure.prepare(facts, found, seed)
    # a measure's own further prompts, under the same rules as the survey's
    references = {m.name: read(m.reference, chat=chat) for m in made if m.reference is not None}
    return SurveyPlan(
        model=ready,
        facts=facts,
        prompts=found,
        measures=made,
        seed=seed,
        preset=preset,
        batch_tokens=batch_tokens or shard_tokens(facts, made, max(found.lengths)),
        references=references,
    )


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


def _checked_batch_tokens(batch_tokens: int) -> int:
    require_whole(batch_tokens=(batch_tokens, 1))
    return int(batch_tokens)


def _checked_seed(seed: int) -> int:
    if not is_whole(seed, below=1 << 32):
        raise OptionError(f"seed={seed!r} is not allowed; give a whole number from 0 to {(1 << 32) - 1}.")
    return int(seed)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _plain(options: dict[str, Any]) -> Any:
    return json.loads(json.dumps(options, default=list))
