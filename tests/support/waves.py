"""Short ways to run measures on tiny models, with all prompts in one padded batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

import xarray as xr
from support import zoo

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.registry import MEASURES, make
from bathyscope.measures.skip import Skip, SkipProbe
from bathyscope.model import Model, load
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront


@lru_cache(maxsize=256)
def loaded(name: str) -> Model:
    """A checked copy of the zoo model of that name; shared between callers, so never change it.

    It is no model that ``zoo.build`` gives: whatever the engine does to it cannot reach the references.
    """
    return load(zoo.entry(name).build())


def facts(model: Model) -> ModelFacts:
    """What measures are told about a model."""
    return ModelFacts(model.anatomy, model.checks)


def of_lengths(*lengths: int) -> list[TokenizedPrompt]:
    """Prompts of these lengths, for checks that look at lengths only."""
    return [TokenizedPrompt(str(number), (number,) * length) for number, length in enumerate(lengths)]


def reference_of(measure: Measure[Any]) -> list[TokenizedPrompt]:
    """A measure's own reference prompts, given as lists of token ids; empty where it takes the survey's."""
    given: Any = () if measure.derived or measure.reference is None else measure.reference
    return [TokenizedPrompt(str(number), tuple(own)) for number, own in enumerate(given)]


def measures(options: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Measure[Any]]:
    """Measures with their options, by name."""
    return {name: make(MEASURES[name], given) for name, given in options.items()}


def skipping(batch: Batch, positions: Sequence[tuple[int, ...]]) -> SkipProbe:
    """What observes skips in a model of three blocks, to be shown views by hand."""
    measure, three_blocks = Skip(), SimpleNamespace(n_blocks=3)
    measure.positions = positions
    return SkipProbe(measure, cast(ModelFacts, three_blocks), batch, range(batch.size))


def run(
    model: Model,
    ids: Sequence[Sequence[int]],
    options: Mapping[str, Mapping[str, Any] | None],
    *,
    tails: bool | None = None,
    call_tokens: int | None = None,
    seed: int = 0,
    answers: Sequence[int | None] | None = None,
) -> dict[str, xr.Dataset]:
    """Datasets of the measures named in ``options`` on one batch that holds all prompts, padded where they differ.

    Args:
        tails: tail rows on shared keys and values; None = as the model's checks allow.
        answers: per prompt how many of its last tokens are the answer; None = no answers.
    """
    known = facts(model)
    made = measures(options)
    batch = Batch.of(ids, model.device, answers)
    given = answers or [None] * len(ids)
    prompts = [TokenizedPrompt(str(n), tuple(own), answer) for n, (own, answer) in enumerate(zip(ids, given))]
    wave = Wavefront(model.anatomy, tails=model.checks.tails if tails is None else tails, call_tokens=call_tokens)
    for measure in made.values():
        measure.prepare(known, prompts, seed)
        if not measure.derived:
            measure.read_reference(wave, reference_of(measure) or prompts)
    probes = {name: measure.probe(known, batch, range(len(ids))) for name, measure in made.items()}
    for probe in probes.values():
        probe.meet_probes(probes)
    wave.run(batch, list(probes.values()))
    for probe in probes.values():
        probe.after(wave, lambda share: None)
    return {name: probe.result() for name, probe in probes.items()}
