"""Representations of two models compared: CKA between every boundary of one and every boundary of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr
from transformers import PreTrainedModel

from bathyscope.measures.cka import TOKENS, Cka, grams, representations, similarities
from bathyscope.model import Model
from bathyscope.prompts.source import Source
from bathyscope.statistics.hsic import HsicSums, minibatch_sums
from bathyscope.surveying import SurveyPlan, plan_survey
from bathyscope.wavefront.engine import Wavefront


def cka(
    model: Model | PreTrainedModel | str | Path,
    other: Model | PreTrainedModel | str | Path,
    prompts: Source,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    **options: Any,
) -> xr.Dataset:
    """CKA between the boundaries of two models on the same prompts, as the measure ``cka`` has it for one.

    Both models are run; each may have its own number of blocks, width and tokenizer. Tokens can be compared only
    where both models see the same token ids; otherwise the prompts' last tokens are, alone.

    Args:
        model, other: what ``load`` returns or takes.
        prompts: as for ``survey``, at least four.
        seed: of the drawn tokens.
        beyond_context: as for ``survey``.
        **options: those of the measure: ``batch``, ``tokens_batch``, ``level``.

    Returns:
        ``cka``, ``ci_low`` and ``ci_high`` (tokens, boundary, boundary_other), with ``boundary`` counted in
        ``model`` and ``boundary_other`` in ``other``.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.
    """
    given: Source = list(prompts) if isinstance(prompts, Iterator) else prompts
    first, second = (
        plan_survey(one, given, ["cka"], seed=seed, beyond_context=beyond_context, options={"cka": options})
        for one in (model, other)
    )
    same_ids = [p.ids for p in first.prompts] == [p.ids for p in second.prompts]
    sums = _sums(first, second, TOKENS if same_ids else ("last",))
    found = similarities(sums, _measure(first).options.level)
    return found.assign_attrs(model=first.model.name, other=second.model.name)


def _sums(first: SurveyPlan, second: SurveyPlan, kinds: tuple[str, ...]) -> dict[str, HsicSums]:
    waves = [Wavefront(plan.model.anatomy, tails=plan.model.checks.tails) for plan in (first, second)]
    total: dict[str, HsicSums] = {}
    for pair in zip(_measure(first).minibatches, _measure(second).minibatches, strict=True):
        points = [representations(wave, one) for wave, one in zip(waves, pair)]
        for kind in kinds:
            own = [grams(one, minibatch.points(kind)) for one, minibatch in zip(points, pair)]
            found = minibatch_sums(own[0], own[1], pair[0].groups(kind))
            total[kind] = total[kind] + found if kind in total else found
    return total


def _measure(plan: SurveyPlan) -> Cka:
    (measure,) = plan.measures
    assert isinstance(measure, Cka)
    return measure
