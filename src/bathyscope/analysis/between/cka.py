"""Representations of two models compared: CKA between every boundary of one and every boundary of the other."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import xarray as xr

from bathyscope.analysis.options import SimilarityOptions
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.core.text import counted, level_text
from bathyscope.measures.of.cka import (
    TOKENS,
    ChosenPoints,
    Cka,
    CkaOptions,
    Minibatch,
    minibatches,
    representations,
    similarities,
)
from bathyscope.model import AnyModel, Model, alone, loaded
from bathyscope.model.reading import PromptReading
from bathyscope.options import coerce
from bathyscope.prompts.in_memory import Source, listed_once
from bathyscope.prompts.parts import copies_in, drawn_together
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.hsic import HsicSums, minibatch_sums
from bathyscope.wavefront.engine import Wavefront


@takes(SimilarityOptions)
def cka(
    model: AnyModel,
    other: AnyModel,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    **options: Any,
) -> LabelledResult:
    """CKA between the boundaries of two models on the same prompts, as the measure ``cka`` has it for one.

    Both models are run; each may have its own number of blocks, width and tokenizer. Tokens can be compared only
    where both models see the same token ids; otherwise the prompts' last tokens are, alone.

    Args:
        model, other: what ``load`` returns or takes.
        prompts: as for ``survey``, at least four.
        ...: the options of ``SimilarityOptions``.
        **options: those of the measure: ``batch``, ``tokens_batch``, ``level``.

    Returns:
        A result; its ``data`` holds the following.
        ``cka``, ``ci_low`` and ``ci_high`` (tokens, boundary, boundary_other), with ``boundary`` counted in
        ``model`` and ``boundary_other`` in ``other``.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.

    Example:
        >>> bathyscope.cka("shallow", model, "prompts.jsonl").cka.dims
        ('tokens', 'boundary', 'boundary_other')
    """
    with alone(model, other):
        chosen = coerce(CkaOptions, options, Cka.name)
        source: Source | Prompts = listed_once(prompts)
        models = [loaded(side, source) for side in (model, other)]
        reading = PromptReading(beyond_context, add_special_tokens, chat)
        read = [reading.read(loaded_model, source, seed=seed) for loaded_model in models]
        # what is one prompt to either model is one prompt of both
        copies = drawn_together(*map(copies_in, read))
        divided = [minibatches(model_prompts, chosen, seed, copies) for model_prompts in read]
        same_ids = [p.ids for p in read[0]] == [p.ids for p in read[1]]
        # With other token ids a prompt's inner tokens have no counterpart; its end has one.
        sums = _sums(models, divided, TOKENS if same_ids else ("last",))
        data = similarities(sums, chosen.level).assign_attrs(model=models[0].name, other=models[1].name)
        return LabelledResult(data, _conclude(data, chosen.level), _tabulate)


def _conclude(data: xr.Dataset, level: float) -> str:
    """Return how alike the boundaries of the first model are to their best partners in the second."""
    kind = data["tokens"].values[0]
    best = data["cka"].sel(tokens=kind).max("boundary_other")
    undefined = int(best.isnull().sum())
    if undefined == best.size:
        models = f"{data.attrs['model']} and {data.attrs['other']}"
        return f"No CKA of {models} is defined (tokens: {kind}): states that are alike in all prompts have none."
    gaps = f" {undefined} of {counted(best.size, 'boundary', 'boundaries')} have none." if undefined else ""
    return (
        f"The boundaries of {data.attrs['model']} have a CKA of {float(best.min()):.2f} to {float(best.max()):.2f} "
        f"with their most similar boundaries of {data.attrs['other']} (tokens: {kind}). "
        f"Intervals of {level_text(level)}.{gaps}"
    )


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    return tabulate_over(data, ("tokens", "boundary", "boundary_other", "cka", "ci_low", "ci_high"), data["cka"].dims)


def _sums(models: Sequence[Model], divided: Sequence[list[Minibatch]], kinds: tuple[str, ...]) -> dict[str, HsicSums]:
    waves = [Wavefront(model.anatomy, tails=model.checks.tails) for model in models]
    total: dict[str, HsicSums] = {}
    # Both models sample the same points, so their Gram matrices belong to the same tokens.
    for pair in zip(*divided, strict=True):
        states = [representations(wave, minibatch) for wave, minibatch in zip(waves, pair)]
        for kind in kinds:
            points = [ChosenPoints(states_LND, minibatch.points(kind)) for states_LND, minibatch in zip(states, pair)]
            sums = minibatch_sums(points[0], points[1], pair[0].groups(kind))
            total[kind] = total[kind] + sums if kind in total else sums
    return total
