"""A survey that is decided: what is measured of which prompts, in which shards and batches."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model
from bathyscope.model.identity import identity_of
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.reading import READING, without_texts
from bathyscope.runs.difference import withheld
from bathyscope.runs.manifest import RANKS
from bathyscope.runs.paired import CONTROL
from bathyscope.surveying.advancing import Weights
from bathyscope.surveying.cutting import SHARD_SECONDS, Pace, Shards
from bathyscope.surveying.rates import nominal_rates
from bathyscope.surveying.sharding import Unit, batch_room, convoy_seconds, convoys_of
from bathyscope.surveying.work import PromptWork, WorkCounter
from bathyscope.wavefront.batch import plan_batches

_LATER_OPTIONS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("read_tokens", "output_reductions", "erasure.positions", "patching.positions")),
    "drop.replace": "zero",
    "drop.direct": False,
    "swap.parallel": False,
}
"""Options that earlier runs do not have, of any measure or of one, and the value that says what was done then."""


def _as_written(value: Any) -> Any:
    """Return what is in a manifest for an option's value that JSON does not know."""
    fingerprint = getattr(value, "fingerprint", None)
    return list(value) if fingerprint is None else fingerprint


@dataclass(frozen=True)
class SurveyPlan:
    """Everything that is decided before compute begins (see ``execution.py``).

    Args:
        cut: the shards, and the stretches that they are made of.
        references: measure → its own further prompts.
        memory: bytes that a survey may take besides the weights; None = nobody says.
        call_tokens: tokens in one call of a block; None = as many as memory allows.
        control: kind and seed of the control that is surveyed; None = the survey is of no control.
    """

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
    control: Mapping[str, str | int] | None = None

    @property
    def shards(self) -> list[tuple[int, int]]:
        """[first, last) prompts of each shard."""
        return list(self.cut.edges)

    @property
    def observing(self) -> tuple[Measure[Any], ...]:
        """The measures that observe rows; the others are derived from their results."""
        return tuple(measure for measure in self.measures if not measure.derived)

    @property
    def notes(self) -> dict[str, Any]:
        """What a reader of the run should know besides its configuration."""
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
            CONTROL: self.control,
            **({READING: self._reading} if self.prompts.reading else {}),
            "memory": self.memory,
            "call_tokens": self.call_tokens,
            **({RANKS: [self.model.ranks]} if self.model.ranks > 1 else {}),
            "states": None if self.model.states is None else self.model.states.record(),
            # what loading warned of, which nobody who opens the run later has seen
            "warnings": list(self.model.warnings),
        }

    @property
    def _reading(self) -> dict[str, Any]:
        return dict(self.prompts.reading) if self.facts.keeps_text else without_texts(self.prompts.reading)

    def identity(self) -> dict[str, Any]:
        """Return the configuration that a resumed run must share."""
        hf, device, model = self.model.hf, self.model.device, identity_of(self.model)
        return {
            "model": self.model.name + (f" ({self.model.schedule})" if self.model.schedule else ""),
            "revision": self.model.revision,
            "weight_hash": self.model.weight_hash,
            "tokenizer_hash": self.prompts.tokenizer_hash,
            "prompt_hash": self.prompts.hash,
            "dataset": self.prompts.dataset,
            "prompts": len(self.prompts),
            "measures": {measure.name: self._options(measure) for measure in self.measures},
            "dtype": model.precision,
            "attention": str(getattr(hf.config, "_attn_implementation", None)),
            # kinds of GPU round differently
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "seed": self.seed,
            "preset": self.preset,
            "batch_tokens": self.batch_tokens,
            "plan": self.shards,
            "pace": self.cut.kept_pace,
            "noise": "control row in every batch against the plain forward",
            "n_blocks": model.n_blocks,
            "config_hash": model.configuration,
            "adapters": model.adapters or None,
            "keep_text": self.facts.keeps_text,
            "schedule": model.schedule,
            "loops": None if self.model.anatomy.cycle is None else list(self.model.anatomy.cycle.blocks),
            "gguf": None if self.model.gguf is None else self.model.gguf.identity(),
            "states": None if self.model.states is None else self.model.states.identity(),
            "packing": self.model.packing,
        }

    def _options(self, measure: Measure[Any]) -> dict[str, Any]:
        options: dict[str, Any] = json.loads(json.dumps(self._option_values(measure), default=_as_written))
        # so that runs from before there were these options are resumed
        keys = {name: {name, f"{measure.name}.{name}"} & _LATER_OPTIONS.keys() for name in options}
        options = {
            name: value
            for name, value in options.items()
            if not any(value == _LATER_OPTIONS[key] for key in keys[name])
        }
        # "class" is a name that no option can have
        if measure.name not in MEASURES:
            options["class"] = f"{type(measure).__module__}:{type(measure).__qualname__}"
        if measure.name in self.references:
            options["reference_hash"] = self.references[measure.name].hash
        options |= {f"{name}_hash": fingerprint for name, fingerprint in measure.fingerprints.items()}
        return options

    def _option_values(self, measure: Measure[Any]) -> dict[str, Any]:
        """Return options by name, without the texts of a reference where no text may be stored."""
        values = dataclasses.asdict(measure.options)
        # a text alone is the name of a source
        if self.facts.keeps_text or measure.reference is None or isinstance(measure.reference, str | SourceSpec):
            return values
        holds_texts = [name for name in values if getattr(measure.options, name) is measure.reference]
        return values | dict.fromkeys(holds_texts, withheld(len(self.references[measure.name])))

    @property
    def work(self) -> list[float]:
        """Of each shard, in seconds of the cost model."""
        return [self.weight_of(range(first, last), self.measures) for first, last in self.cut.edges]

    def weight_of(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> float:
        """Return the work of prompts with some of the measures, in seconds of the cost model."""
        return self.weights_of(numbers, measures).seconds

    def weights_of(self, numbers: Iterable[int], measures: Sequence[Measure[Any]], pace: Pace | None = None) -> Weights:
        """Return the same by kind of work, by the plan's pace or another."""
        return Weights.of(self.work_of(numbers, measures), pace or self.pace, self.model.anatomy.vocabulary)

    @property
    def pace(self) -> Pace:
        """The rates by which shards were sized, or nominal ones."""
        return self.cut.pace or Pace.of(nominal_rates(self.model.device))

    def work_of(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> list[PromptWork]:
        """Count the work of prompts with some of the measures."""
        names = tuple(measure.name for measure in measures)
        # a counter goes over all weights once, and this is asked several times for every batch
        if names not in self._counters:
            self._counters[names] = WorkCounter(self.facts, measures)
        counter = self._counters[names]
        return [counter.of(number, len(self.prompts[number])) for number in numbers]

    @cached_property
    def _counters(self) -> dict[tuple[str, ...], WorkCounter]:
        return {}

    def _most_rows(self, numbers: Iterable[int], measures: Sequence[Measure[Any]]) -> float:
        """Return the rows of the prompt that has most, its baseline among them."""
        return 1 + max(work.rows for work in self.work_of(numbers, measures))

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
        lengths = [len(self.prompts[number]) for number in indices]
        rows = max(1, round(self._most_rows(indices, measures)))
        place = device or self.model.device
        room = batch_room(self.model.anatomy, self.model.dtype, call_tokens, place, self.memory)
        planned = plan_batches(lengths, rows, room, self.model.anatomy.equal_lengths)
        return [[indices[index] for index in batch] for batch in planned]

    def state_bytes(self, picked: Sequence[int], measures: Sequence[Measure[Any]]) -> int:
        """Return what the rows of a batch take between blocks."""
        lengths = {len(self.prompts[number]) for number in picked}
        rows = 2 * self._most_rows(picked, measures)
        keeping = sum(measure.keeps_boundaries for measure in measures)
        # without pads among them, all keep the same tensors
        boundaries = keeping if len(lengths) > 1 else min(keeping, 1)
        # a row that departs halfway ends as one state
        states = len(picked) * (rows + boundaries * (self.model.n_blocks + 1))
        return int(states * max(lengths) * self.model.anatomy.width * self.model.dtype.itemsize)

    def convoys(
        self,
        units: Sequence[Unit],
        picked: Sequence[Sequence[int]],
        measures: Sequence[Sequence[Measure[Any]]],
        shards: Sequence[int],
        room: int,
    ) -> list[list[Unit]]:
        """Gather batches that share a visit of every streamed block.

        Args:
            picked: the prompts of each batch, as their numbers.
            measures: of each batch, those that are to be computed.
            shards: the shard that each belongs to.
            room: bytes for states at a time.
        """
        anatomy = self.model.anatomy
        pace = self.pace
        batches = list(zip(picked, measures, strict=True))
        sizes = [self.state_bytes(numbers, of_batch) for numbers, of_batch in batches]
        seconds = [
            sum(pace.seconds(work, anatomy.vocabulary) for work in self.work_of(numbers, of_batch))
            for numbers, of_batch in batches
        ]
        return convoys_of(units, sizes, shards, room, seconds, convoy_seconds(anatomy, SHARD_SECONDS))
