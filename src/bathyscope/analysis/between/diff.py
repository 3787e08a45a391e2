"""Where two models part: how far their streams drift, and what each block of one does inside the other.

Both models see the same tokens. The *drift* at a boundary is how far the second model's stream lies from the first's.
A *graft* puts one block of the second model into the first, with everything else as it was, and costs what the output
changes by. Drift adds up from block to block; grafts name the blocks that cause it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.between.diff_text import beyond_rounding
from bathyscope.analysis.between.parting import PARTS, Difference, TokenPredictions, difference
from bathyscope.analysis.between.sides import (
    ModelSide,
    compare_predictions,
    output_of,
    part_drift,
    relative,
    rounding_of,
    run_plain,
    sides_of_adapters,
    sides_of_models,
    token_means,
)
from bathyscope.analysis.between.weights import WeightComparison, compare_adapters, compare_weights
from bathyscope.analysis.options import DiffOptions
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm
from bathyscope.errors import ModelError, warn
from bathyscope.measures.costs import tree_costs
from bathyscope.model import AnyModel, Model, alone, loaded
from bathyscope.model.identity import identity_of
from bathyscope.model.in_hand import has_adapters
from bathyscope.model.reading import PromptReading, tokens_in_common, vocabularies_differ
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts, warn_of_repeats
from bathyscope.prompts.tokenizer import ask
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.histories import Tree, grafted

_OTHER: Final = "other"
_MARGIN: Final = 1.5
"""Of rounding: its bound over what random rounding does. In 52 pairs of equal functions, none came above 0.8."""
_ROUNDING_OF_KL: Final = 64 * float(np.finfo(np.float64).eps)
"""Nats that computing the divergence in float64 may add."""


@takes(DiffOptions)
def diff(
    a: AnyModel,
    b: AnyModel | None,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    resamples: int = 1000,
    level: float = 0.95,
) -> Difference:
    """Measure where two models of one shape part: a model and its fine-tuned, quantised or converted copy.

    Args:
        a, b: what ``load`` returns or takes; None for ``b`` = ``a`` without its adapters, which are switched off for it
            and not loaded again.
        prompts: as for ``survey``; both models are given the token ids of ``a``.
        ...: the options of ``DiffOptions``.

    Returns:
        A result; ``first`` is the first block behind which the streams part by more than rounding on any prompt, or
        None; 0 also where they part in front of all blocks.
        Its ``data`` holds ``drift`` (prompt, boundary), ‖h_b − h_a‖ / ‖h_a‖ averaged over tokens; ``graft`` and
        ``graft_back`` (prompt, block), KL in nats a token of ``a`` from ``a`` with that block of ``b``, and the
        reverse; ``cumulative`` (prompt, block), with all blocks up to this one from ``b``, and ``cumulative_back``;
        ``unexplained`` (prompt), the last of these less the sum of the grafts; ``output`` (prompt), KL of ``a`` from
        ``b`` as a whole, with its embedding and unembedding; ``part_drift`` (prompt, block, part), of what attention
        and MLP add, where they add something in ``a``; ``weight_change`` (block), ‖W_b − W_a‖ / ‖W_a‖, NaN where all
        weights of ``a`` are 0; means with intervals; ``noise_floor`` (prompt,
        boundary) and ``output_floor`` (prompt), what rounding alone may do to each prompt: 1.5 times the largest that
        random rounding of every operation does to either model in three forwards (Monte Carlo arithmetic, with the unit
        roundoff of each model's precision and the lengths of its sums), both added as random errors are; ``beyond``
        (boundary), the prompts above it; and by token ``token_drift``, ``token_kl`` and the predictions of both.
        Attributes say where weights differ as numbers (``weights_differ``, unset where their names or shapes do), and
        which settings do (``settings_differ``, by name in ``setting_details``). Adapters that do nothing are no
        difference. Where one model has further tokens, predictions of both are compared over those that both have
        (``tokens_in_common``, of ``vocabularies``); what a graft does to one model is over all of its own.

    Raises:
        ModelError: models of different widths or numbers of blocks; tokenizers that mean other tokens by the same ids,
            or that are unknown where the vocabularies are of two sizes; prompts with a token that one model alone has;
            two models of the same modules with adapters; no adapters where ``b`` is None, or merged or disabled ones;
            predictions that are not finite.
        OptionError, PromptError: an option out of its range, or prompts that cannot be measured; before any compute.

    Example:
        >>> parted = bathyscope.diff("model", "model", "prompts.jsonl", resamples=100)
        >>> parted.first is None, float(parted["graft"].max())
        (True, 0.0)
    """
    reading = PromptReading(beyond_context, add_special_tokens, chat)
    if b is None:
        return _diff(a, None, prompts, reading, Sampling(resamples, level, seed))
    with alone(a, b):
        return _diff(a, b, prompts, reading, Sampling(resamples, level, seed))


def _diff(
    a: AnyModel,
    b: AnyModel | None,
    prompts: Source | Prompts,
    reading: PromptReading,
    sampling: Sampling,
) -> Difference:
    first = loaded(a, prompts)
    with alone(first):
        sides = sides_of_adapters(first) if b is None else sides_of_models(first, loaded(b))
        if b is not None and getattr(a, "hf", a) is not getattr(b, "hf", b):
            _require_two_models(*(side.model for side in sides))
        elif b is not None and not isinstance(a, str | Path):
            warn(
                "Both models are one object in memory, which cannot differ from itself. To see what training in place "
                "changed, keep a copy from before (copy.deepcopy, or its saved folder)."
            )
        read = reading.read(first, prompts, seed=sampling.seed)
        warn_of_repeats(read)
        ids = {token for prompt in read for token in prompt.ids}
        if first.vocabulary != sides[1].model.vocabulary:
            common = tokens_in_common(first, sides[1].model)
            sides = (replace(sides[0], tokens=common), replace(sides[1], tokens=common))
            # predictions are compared token by token, and not the tokens of prompts alone
            ids |= {*common}
        apart = vocabularies_differ(first, sides[1].model, ids)
        if apart is not None:
            raise ModelError(
                f"diff gives both models the same token ids, and {apart}. Compare models with one tokenizer."
            )
        weights = compare_adapters(first) if b is None else compare_weights(*(side.model for side in sides))
        return _identified(_measure(sides, weights, read, replace(sampling, cluster=read.clusters(None))), sides)


def _require_two_models(first: Model, second: Model) -> None:
    """Refuse two models that are one set of modules, with adapters in both.

    Raises:
        ModelError: with what helps.
    """
    pairs = zip(first.anatomy.blocks, second.anatomy.blocks, strict=True)
    if has_adapters(first.hf) and all({*left.modules()} == {*right.modules()} for left, right in pairs):
        raise ModelError(
            "Both models are the same modules, adapters included: get_peft_model changes a model in place. Give the "
            "one with adapters alone and b=None, which compares it with itself without them."
        )


def _identified(result: Difference, sides: tuple[ModelSide, ModelSide]) -> Difference:
    """Return the result with the identities of both models among its attributes."""
    attrs: dict[str, Any] = {}
    for prefix, side in zip(("", "other_"), sides):
        with side.running():
            record = identity_of(side.model).record()
        attrs |= {f"{prefix}{name}": value for name, value in record.items() if name != "model"}
    return replace(result, data=result.data.assign_attrs({**attrs, **result.data.attrs}))


def _measure(
    sides: tuple[ModelSide, ModelSide], weights: WeightComparison, read: Prompts, sampling: Sampling
) -> Difference:
    """Return every number, of all prompts in order."""
    models = [side.model for side in sides]
    n_blocks = models[0].n_blocks
    by_block = ("graft", "graft_back", "cumulative", "cumulative_back")
    longest = max(len(prompt) for prompt in read)
    values: dict[str, NDArray[np.float64]] = {
        "drift": np.zeros((len(read), n_blocks + 1)),
        "part_drift": np.full((len(read), n_blocks, len(PARTS)), np.nan),
        "output": np.zeros(len(read)),
        "noise_floor": np.zeros((len(read), n_blocks + 1)),
        "output_floor": np.zeros(len(read)),
        **{name: np.zeros((len(read), n_blocks)) for name in by_block},
    }
    drift_PBT = np.full((len(read), n_blocks + 1, longest), np.nan)
    kl_PT = np.full((len(read), longest), np.nan)
    top_PT = np.full((2, len(read), longest), -1)
    equal_lengths = any(model.anatomy.equal_lengths for model in models)
    room = min(side.wave.policy.tokens for side in sides)
    batches = plan_batches([len(prompt) for prompt in read], 1, room, equal_lengths)
    for picked in batches:
        ids = [read[place].ids for place in picked]
        lengths = [len(prompt_ids) for prompt_ids in ids]
        first, second = (run_plain(side, ids) for side in sides)
        drift_BPT = relative(second.streams, first.streams)
        floors = [rounding_of(forward, ids) for forward in (first, second)]
        # Both models round, each in its own way: what they do to each other adds up as random errors do.
        values["noise_floor"][picked] = _MARGIN * np.hypot(floors[0][0], floors[1][0])
        values["output_floor"][picked] = _MARGIN**2 * (floors[0][1] + floors[1][1]) + _ROUNDING_OF_KL
        values["drift"][picked] = token_means(drift_BPT, lengths)
        for place, part in enumerate(PARTS):
            if part in first.parts and part in second.parts:
                values["part_drift"][picked, :, place] = part_drift(second.parts[part], first.parts[part], lengths)
        compared = compare_predictions(first, second)
        values["output"][picked] = output_of(compared, lengths)
        for row, prompt in enumerate(picked):
            length = lengths[row]
            drift_PBT[prompt, :, :length] = drift_BPT[:, row, :length]
            kl_PT[prompt, :length] = compared.kl_PT[row, :length]
            top_PT[:, prompt, :length] = compared.top_SPT[:, row, :length]
    weights = _with_unknown(weights, values["drift"], values["noise_floor"])
    changed = [block for block in range(n_blocks) if weights.differs[block]]
    for picked in batches:
        ids = [read[place].ids for place in picked]
        for direction, target, origin in (("", 0, 1), ("_back", 1, 0)):
            single, prefixes = _graft_costs(sides[target], sides[origin], ids, changed)
            values[f"graft{direction}"][picked] = single
            values[f"cumulative{direction}"][picked] = prefixes
    tokens = TokenPredictions(drift_PBT, kl_PT, *_texts(read, longest, top_PT))
    return difference(
        values,
        tokens,
        weights,
        [prompt.id for prompt in read],
        (sides[0].name, sides[1].name),
        _families(models),
        sampling,
        _vocabularies(sides[0], models),
    )


def _vocabularies(side: ModelSide, models: Sequence[Model]) -> dict[str, Any]:
    """Return how many tokens are compared, of how many, where they are not all of both models; else nothing."""
    if side.tokens is None:
        return {}
    return {"tokens_in_common": len(side.tokens), "vocabularies": [model.vocabulary for model in models]}


def _with_unknown(
    weights: WeightComparison, drift: NDArray[np.float64], floor: NDArray[np.float64]
) -> WeightComparison:
    """Return the comparison with all blocks as possibly different where one parts that was thought to be equal.

    Args:
        drift, floor: of each prompt at each boundary.
    """
    beyond = np.flatnonzero(beyond_rounding(drift, floor).any(0))
    if not beyond.size or drift[:, 0].any() or any(weights.differs[: beyond[0]]):
        return weights
    detail = f"something unknown in block {beyond[0] - 1}"
    return replace(
        weights,
        differs=[True] * len(weights.differs),
        settings=[*weights.settings, "unknown"],
        details=(*weights.details, detail),
    )


def _families(models: Sequence[Model]) -> tuple[str, str]:
    """Return the type of each model's configuration, or the name of its family where it has none."""
    first, second = (str(getattr(model.hf.config, "model_type", "")) or model.anatomy.family.name for model in models)
    return first, second


def _graft_costs(
    target: ModelSide, origin: ModelSide, ids: Sequence[Sequence[int]], changed: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return KL of a model from itself with single blocks of the other, and with all blocks up to one, [prompts, L]."""
    n_blocks = target.model.n_blocks
    # Blocks of equal weights are the block itself: their histories are the full one, and cost nothing.
    single = [grafted(n_blocks, {*changed} & {block}, _OTHER) for block in range(n_blocks)]
    prefixes = [grafted(n_blocks, {*changed} & {*range(block + 1)}, _OTHER) for block in range(n_blocks)]
    with target.running():
        costs = tree_costs(
            target.wave,
            Batch.of(ids, target.model.device),
            Tree([grafted(n_blocks, (), _OTHER), *single, *prefixes]),
            ("kl",),
            variants={_OTHER: origin.blocks},
        )["kl"]
    return costs[1 : n_blocks + 1].T, costs[n_blocks + 1 :].T


def _texts(read: Prompts, longest: int, top_PT: NDArray[np.int64]) -> list[NDArray[np.str_]]:
    """Return the tokens of the prompts and both predictions as text, or as ids without a tokenizer."""
    ids_PT = np.array([[*prompt.ids, *[-1] * (longest - len(prompt))] for prompt in read])
    tokenizer = read.tokenizer

    def written(token: int) -> str:
        if token < 0:
            return ""
        return str(token) if tokenizer is None else str(ask(tokenizer.decode, [token]))

    text_by_id = {int(token): written(int(token)) for token in np.unique(np.concatenate([ids_PT[None], top_PT]))}
    return [np.vectorize(text_by_id.__getitem__, otypes=[str])(ids) for ids in (ids_PT, *top_PT)]
