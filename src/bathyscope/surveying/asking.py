"""What is asked of a survey, of whichever model and prompts, and the plan that comes of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bathyscope.errors import warn
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.registry import chosen, make
from bathyscope.model import AnyModel, loaded
from bathyscope.model.reading import tokenized
from bathyscope.prompts.label_checks import require_free
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source
from bathyscope.runs.merge import PROMPT
from bathyscope.surveying.papers.presets import Preset
from bathyscope.surveying.papers.presets import preset as preset_of
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.sharding import shard_tokens

Asked = str | type[Measure[Any]] | Measure[Any]
Measures = Sequence[Asked] | Asked | None


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
        """Name → each measure and its options, those that others require included."""
        paper = preset_of(self.preset)
        return chosen(_named(self.measures, paper), self.options, paper.options)

    def plan(self, model: AnyModel, prompts: Source | Prompts, *, told: bool = True) -> SurveyPlan:
        """All decisions and checks, before any compute (see ``survey``).

        Args:
            told: whether prompts that stand twice are told of; they are none of the caller's where one stands for all.
        """
        paper = preset_of(self.preset)
        named = _named(self.measures, paper)
        measures = tuple(make(one, own) for one, own in self.declared.values())
        seed = paper.seed if self.seed is None else self.seed
        ready = loaded(model)
        read = partial(tokenized, ready, seed=seed, add_special_tokens=self.add_special_tokens, chat=self.chat)
        found = read(prompts, beyond_context=self.beyond_context)
        again = len(found) - len({(prompt.ids, prompt.answer_tokens) for prompt in found})
        if told and again:
            warn(
                f"{again} of {len(found)} prompts have the tokens of others; intervals take each for a draw of its own "
                "and are too narrow. Give each prompt once."
            )
        facts = ModelFacts(ready.anatomy, ready.checks, found.tokenizer, self.keep_text)
        by_name = {one if isinstance(one, str) else one.name for one in named}
        measures = _possible(measures, facts, found, {*by_name, *self.options})
        require_free(found.labels, {m.name: _names(m) for m in measures if not m.derived})
        for measure in measures:
            if facts.has_weights or not measure.looks_at_weights:
                measure.prepare(facts, found, seed)
        # a measure's own further prompts, under the same rules as the survey's
        references = {m.name: read(m.reference) for m in measures if m.reference is not None}
        tokens = self.batch_tokens or shard_tokens(facts, measures, max(found.lengths))
        limits = (self.memory, self.call_tokens)
        return SurveyPlan(ready, facts, found, measures, seed, self.preset, tokens, references, *limits)


def _names(measure: Measure[Any]) -> set[str]:
    """Names that results by prompt have, as far as the measure declares them; others are met when they are there."""
    table = measure.table or {}
    by_prompt = {name: label for name, label in table.items() if PROMPT in label.most} or table
    return {*by_prompt, *(dim for label in by_prompt.values() for dim in label.most)}


def _named(given: Measures, preset: Preset) -> Sequence[Asked]:
    """The measures as they were asked for."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    if given is None:
        return preset.measures
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
