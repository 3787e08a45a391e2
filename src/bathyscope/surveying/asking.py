"""A request for a survey, of any model and prompts, and the plan that results from it."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from bathyscope.core.common_options import ChatForm
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, PromptError, warn
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.guard import told_by_name
from bathyscope.measures.registry import chosen, make
from bathyscope.model import AnyModel, Model, loaded
from bathyscope.model.identity import identity_of
from bathyscope.model.ranks import require_same
from bathyscope.model.reading import PromptReading
from bathyscope.options import items_of
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.label_checks import require_free
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts, warn_of_repeats
from bathyscope.prompts.withholding import without_text_labels
from bathyscope.runs.merge import PROMPT
from bathyscope.surveying.cutting import EarlierCut, Shards, cut_prompts
from bathyscope.surveying.papers.presets import Preset
from bathyscope.surveying.papers.presets import preset as preset_of
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import measure_rates
from bathyscope.surveying.sharding import shard_tokens
from bathyscope.surveying.work import WorkCounter

Asked = str | type[Measure[Any]] | Measure[Any]
Measures = Sequence[Asked] | Asked | None


@dataclass(frozen=True)
class Survey:
    """A request that holds for any model and prompts: the same for a model and for its controls.

    The arguments are those of ``survey``, and four more.

    Args:
        before: how the run that is continued was cut; None = nothing is continued.
        measures_pace: size shards by the rates of this machine, where they matter; else by nominal ones.
        device: the one that will compute; None = the one that the model is on.
        defaults: measure → options that count where none are given, before those of a preset.
        without: measures that "all" leaves out, and no other one brings along.
    """

    measures: Measures = None
    seed: int | None = None
    batch_tokens: int | None = None
    before: EarlierCut | None = None
    measures_pace: bool = False
    device: torch.device | None = None
    preset: str | None = None
    memory: int | None = None
    call_tokens: int | None = None
    beyond_context: bool | None = None
    add_special_tokens: bool = True
    chat: ChatForm = False
    keep_text: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    @property
    def declared(self) -> dict[str, tuple[Any, Any]]:
        """Name → each measure and its options, those that others require included."""
        paper = preset_of(self.preset)
        measures = {*paper.options, *self.defaults}
        defaults = {name: {**paper.options.get(name, {}), **self.defaults.get(name, {})} for name in measures}
        return chosen(_named(self.measures, paper), self.options, defaults, self.without)

    def plan(self, model: AnyModel, prompts: Source | Prompts, *, warns_of_repeats: bool = True) -> SurveyPlan:
        """Decide and check everything before any compute (see ``survey``).

        Args:
            warns_of_repeats: warn of prompts that are given twice; False where one stands for all on purpose.
        """
        # mistyped measures and options are refused before a model is loaded
        measures = tuple(make(declaration, options) for declaration, options in self.declared.values())
        seed, ready = self._seed, loaded(model)
        # measures of other names or options would make other collectives, for which all ranks wait
        require_same("options", [[measure.name, _plain_text(measure.options)] for measure in measures])
        survey_prompts = self._read(ready, prompts, self.beyond_context)
        require_same("prompts", [survey_prompts.hash, survey_prompts.lengths])
        if not self.keep_text:
            survey_prompts = without_text_labels(survey_prompts)
        if warns_of_repeats:
            warn_of_repeats(survey_prompts)
        facts = ModelFacts(ready.anatomy, ready.checks, survey_prompts.tokenizer, self.keep_text, identity_of(ready))
        named = _named(self.measures, preset_of(self.preset))
        names = {measure if isinstance(measure, str) else measure.name for measure in named}
        measures = _possible(measures, facts, survey_prompts, {*names, *self.options})
        require_free(survey_prompts.labels, {m.name: _names(m) for m in measures if not m.derived})
        for measure in measures:
            if facts.has_weights or not measure.looks_at_weights:
                with told_by_name(measure, "prepare()"):
                    measure.prepare(facts, survey_prompts, seed)
        # a measure's own further prompts, under the same rules as the survey's
        references = {m.name: self._read_reference(ready, m) for m in measures if m.reference is not None}
        batch_tokens, cut = self._cut(ready, facts, measures, survey_prompts)
        return SurveyPlan(
            model=ready,
            facts=facts,
            prompts=survey_prompts,
            measures=measures,
            seed=seed,
            preset=self.preset,
            batch_tokens=batch_tokens,
            cut=cut,
            references=references,
            memory=self.memory,
            call_tokens=self.call_tokens,
        )

    def read(self, model: AnyModel, prompts: Source | Prompts) -> Prompts:
        """Return the prompts as the model reads them."""
        return self._read(loaded(model), prompts, self.beyond_context)

    def _read(self, model: Model, prompts: Source | Prompts, beyond_context: bool | None) -> Prompts:
        return PromptReading(beyond_context, self.add_special_tokens, self.chat).read(model, prompts, seed=self._seed)

    def _read_reference(self, model: Model, measure: Measure[Any]) -> Prompts:
        """Return a measure's own further prompts.

        Raises:
            PromptError: with the option that names them.
        """
        try:
            return self._read(model, measure.reference, None)  # type: ignore[arg-type]
        except PromptError as error:
            values = vars(measure.options)
            option = next((name for name, value in values.items() if value is measure.reference), "reference")
            raise PromptError(f"{measure.name}: {option}: {error}") from error

    @property
    def _seed(self) -> int:
        return preset_of(self.preset).seed if self.seed is None else self.seed

    def _cut(
        self, model: Model, facts: ModelFacts, measures: Sequence[Measure[Any]], prompts: Prompts
    ) -> tuple[int, Shards]:
        """Return the tokens that a shard may have, and the shards."""
        before = self.before
        # another cut than that of the run is requested, which is refused where the run is opened
        if before is not None and self.batch_tokens not in (None, before.batch_tokens):
            before = None
        counter = WorkCounter(facts, measures)
        work = [counter.of(number, length) for number, length in enumerate(prompts.lengths)]
        most_rows = 1 + max(prompt_work.rows + prompt_work.rows_after for prompt_work in work)
        earlier_tokens = None if before is None else before.batch_tokens
        tokens = self.batch_tokens or earlier_tokens or shard_tokens(facts, most_rows)
        mean_length = round(sum(prompts.lengths) / len(prompts))
        shards = cut_prompts(
            work,
            facts.anatomy.vocabulary,
            self.device or model.device,
            tokens,
            before=before,
            by_time=self.batch_tokens is None,
            measure=partial(measure_rates, model, mean_length, model.device) if self.measures_pace else None,
        )
        return tokens, shards


def _plain_text(options: object) -> str:
    """Return options as a text that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(options))


def _names(measure: Measure[Any]) -> set[str]:
    """Return the names that results by prompt have, as far as the measure declares them; others are met later."""
    table = measure.table or {}
    by_prompt = {name: label for name, label in table.items() if PROMPT in label.most} or table
    return {*by_prompt, *(dim for label in by_prompt.values() for dim in label.most)}


def _named(measures: Measures, preset: Preset) -> Sequence[Asked]:
    """Return the measures as the caller named them, or those of the preset."""
    if isinstance(measures, str):
        return items_of(measures)
    if measures is None:
        return preset.measures
    if isinstance(measures, Mapping):
        raise OptionError(
            f"measures={elided(repr(measures), 60)} is a dict. Give the names as a list, and options under the "
            f"measure's own name: {next(iter(measures), 'lens')}={{...}}."
        )
    if not isinstance(measures, Iterable | Measure):
        raise OptionError(
            f"measures={elided(repr(measures), 60)} is no list of measures. Give names, such as ['residual', 'lens'] "
            "or 'all'."
        )
    return [measures] if isinstance(measures, Measure | type) else measures


def _possible(
    measures: tuple[Measure[Any], ...],
    facts: ModelFacts,
    prompts: Sequence[TokenizedPrompt],
    named: Collection[str],
) -> tuple[Measure[Any], ...]:
    """Leave out the measures that this model or these prompts do not allow; one that was named refuses them itself.

    Args:
        named: measures that were named or given options, as against those that "all" or another measure brings in.
    """
    checked = [m for m in measures if facts.has_weights or not m.looks_at_weights]
    reasons = {m.name: m.unavailable(facts, prompts) for m in checked if m.name not in named}
    for name, reason in reasons.items():
        if reason is not None:
            warn(f"{name} is left out: {reason}.")
    return tuple(m for m in measures if reasons.get(m.name) is None)
