"""Where two models part: how far their streams drift, and what each block of one does inside the other.

Both models see the same tokens. The *drift* at a boundary is how far the second model's stream lies from the first's.
A *graft* puts one block of the second model into the first, with everything else as it was, and costs what the output
changes by. Drift adds up from block to block; grafts name the blocks that cause it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bathyscope.analysis.between.parting import PARTS, Difference, TokenPredictions, difference
from bathyscope.errors import ModelError
from bathyscope.measures.costs import tree_costs
from bathyscope.model import AnyModel, Model, alone, config_hash, loaded
from bathyscope.model.constants import departure_of
from bathyscope.model.identity import identity_of
from bathyscope.model.reading import tokenized, vocabularies_differ
from bathyscope.model.streaming.lending import lent
from bathyscope.options import Coverage, Resamples, checked
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.adapters import adapters, is_adapted, require_adapters
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Tree, grafted
from bathyscope.wavefront.probe import BaselineView, BoundaryReader
from bathyscope.wavefront.variants import SlotVariant

_OTHER: Final = "other"
_LOGITS: Final = 1 << 22
"""Logits of either model that are compared at once: 32 MiB each in float64."""


@checked
def diff(
    a: AnyModel,
    b: AnyModel | None,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    resamples: Resamples = 1000,
    level: Coverage = 0.95,
) -> Difference:
    """Measure where two models of one shape part: a model and its fine-tuned, quantised or converted copy.

    Args:
        a, b: what ``load`` returns or takes; None for ``b`` = ``a`` without its adapters, which are switched off for it
            and not loaded again.
        prompts: as for ``survey``; both models are given the token ids of ``a``.
        seed: of generated problems and of resampling.
        beyond_context: as for ``survey``.
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.

    Returns:
        A result; ``first`` is the first block behind which the streams part by more than rounding, or None.
        Its ``data`` holds ``drift`` (prompt, boundary), ‖h_b − h_a‖ / ‖h_a‖ averaged over tokens; ``graft`` and
        ``graft_back`` (prompt, block), KL in nats a token of ``a`` from ``a`` with that block of ``b``, and the
        reverse; ``cumulative`` (prompt, block), with all blocks up to this one from ``b``, and ``cumulative_back``;
        ``unexplained`` (prompt), the last of these less the sum of the grafts; ``output`` (prompt), KL of ``a`` from
        ``b`` as a whole, with its embedding and unembedding; ``part_drift`` (prompt, block, part), of what attention
        and MLP add; ``weight_change`` (block), ‖W_b − W_a‖ / ‖W_a‖; means with intervals; ``noise_floor`` (boundary)
        and ``output_floor``, what rounding alone does in batches of another size; and by token ``token_drift``,
        ``token_kl`` and the predictions of both.

    Raises:
        ModelError: models of different widths, vocabularies or numbers of blocks; tokenizers that mean other tokens by
            the same ids; no adapters where ``b`` is None, or merged ones; predictions that are not finite.
        OptionError, PromptError: an option out of its range, or prompts that cannot be measured; before any compute.

    Example:
        >>> parted = bathyscope.diff("model", "model", "prompts.jsonl", resamples=100)
        >>> parted.first is None, float(parted["graft"].max())
        (True, 0.0)
    """
    if b is None:
        return _diff(a, None, prompts, seed, beyond_context, Sampling(resamples, level, seed))
    with alone(a, b):
        return _diff(a, b, prompts, seed, beyond_context, Sampling(resamples, level, seed))


def _diff(
    a: AnyModel,
    b: AnyModel | None,
    prompts: Source | Prompts,
    seed: int,
    beyond_context: bool | None,
    sampling: Sampling,
) -> Difference:
    first = loaded(a)
    with alone(first):
        sides = _sides_of_adapters(first) if b is None else _sides(first, loaded(b))
        read = tokenized(first, prompts, seed=seed, beyond_context=beyond_context)
        apart = vocabularies_differ(first, sides[1].model, {token for prompt in read for token in prompt.ids})
        if apart is not None:
            raise ModelError(
                f"diff gives both models the same token ids, and {apart}. Compare models with one tokenizer."
            )
        return _identified(_measure(sides, read, sampling), sides)


def _identified(result: Difference, sides: tuple[_Side, _Side]) -> Difference:
    """Return the result with the identities of both models among its attributes."""
    attrs: dict[str, Any] = {}
    for prefix, side in zip(("", "other_"), sides):
        with side.running():
            record = identity_of(side.model).record()
        attrs |= {f"{prefix}{name}": value for name, value in record.items() if name != "model"}
    return replace(result, data=result.data.assign_attrs({**attrs, **result.data.attrs}))


def require_same_shape(a: Model, b: Model) -> None:
    """Refuse models whose blocks cannot take each other's places.

    Raises:
        ModelError: different widths, vocabularies or numbers of blocks.
    """
    facts = {
        "blocks": (a.n_blocks, b.n_blocks),
        "width": (a.anatomy.width, b.anatomy.width),
        "vocabulary": (a.anatomy.vocabulary, b.anatomy.vocabulary),
    }
    for name, (left, right) in facts.items():
        if left != right:
            raise ModelError(
                f"diff needs two models of one shape, and their {name} differ ({left} and {right}). Use cka or maps "
                "to compare models of different shapes."
            )


@dataclass(frozen=True)
class _Side:
    """One of the two models.

    Args:
        name: for the result.
        blocks: its blocks, as the other model may hold them.
        running: a context in which the model runs as this side.
    """

    model: Model
    name: str
    blocks: SlotVariant
    running: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def wave(self) -> Wavefront:
        return Wavefront(self.model.anatomy, tails=False)


def _sides(a: Model, b: Model) -> tuple[_Side, _Side]:
    require_same_shape(a, b)
    first, second = (_Side(model, model.name, SlotVariant.of_model(model.anatomy)) for model in (a, b))
    return first, second


def _sides_of_adapters(model: Model) -> tuple[_Side, _Side]:
    """Return a model with its adapters on, and off.

    Raises:
        ModelError: no adapters, or merged ones.
    """
    require_adapters(model.hf)

    def side(name: str, on: bool) -> _Side:
        return _Side(model, name, SlotVariant.of_adapters(model.anatomy, on=on), partial(adapters, model.hf, on=on))

    return side(model.name, True), side(f"{model.name} without adapters", False)


def _measure(sides: tuple[_Side, _Side], read: Prompts, sampling: Sampling) -> Difference:
    """Return every number, of all prompts in order."""
    models = [side.model for side in sides]
    waves = [side.wave for side in sides]
    n_blocks = models[0].n_blocks
    changes, differs = _weight_changes(*models) if models[0] is not models[1] else _adapter_changes(models[0])
    changed = [block for block in range(n_blocks) if differs[block]]
    by_block = ("graft", "graft_back", "cumulative", "cumulative_back")
    longest = max(len(prompt) for prompt in read)
    values: dict[str, NDArray[np.float64]] = {
        "drift": np.zeros((len(read), n_blocks + 1)),
        "part_drift": np.full((len(read), n_blocks, len(PARTS)), np.nan),
        "output": np.zeros(len(read)),
        **{name: np.zeros((len(read), n_blocks)) for name in by_block},
    }
    drift_PBT = np.full((len(read), n_blocks + 1, longest), np.nan)
    kl_PT = np.full((len(read), longest), np.nan)
    top_PT = np.full((2, len(read), longest), -1)
    floor = np.zeros(n_blocks + 1)
    output_floor = 0.0
    equal_lengths = any(model.anatomy.equal_lengths for model in models)
    room = min(wave.policy.tokens for wave in waves)
    for picked in plan_batches([len(prompt) for prompt in read], 1, room, equal_lengths):
        ids = [read[place].ids for place in picked]
        lengths = [len(prompt_ids) for prompt_ids in ids]
        passes = [_run_plain(side, wave, ids) for side, wave in zip(sides, waves)]
        drift_BPT = _relative(passes[1].streams, passes[0].streams)
        for side, wave, plain in zip(sides, waves, passes):
            # A model that is given every prompt twice rounds in another way, and is still itself.
            again = _run_plain(side, wave, [*ids, *ids])
            floor_BPT = _relative([resid_BTD[: len(ids)] for resid_BTD in again.streams], plain.streams)
            floor = np.maximum(floor, _means(floor_BPT, lengths).max(0))
            rounded = _compare_predictions([wave, wave], [plain, again])
            output_floor = max(output_floor, *_output_of(rounded, lengths))
        values["drift"][picked] = _means(drift_BPT, lengths)
        for place, part in enumerate(PARTS):
            if all(part in plain.parts for plain in passes):
                values["part_drift"][picked, :, place] = _means(
                    _relative(passes[1].parts[part], passes[0].parts[part]), lengths
                )
        compared = _compare_predictions(waves, passes)
        values["output"][picked] = _output_of(compared, lengths)
        for row, prompt in enumerate(picked):
            length = lengths[row]
            drift_PBT[prompt, :, :length] = drift_BPT[:, row, :length]
            kl_PT[prompt, :length] = compared.kl_PT[row, :length]
            top_PT[:, prompt, :length] = compared.top_SPT[:, row, :length]
        for direction, target, origin in (("", 0, 1), ("_back", 1, 0)):
            single, prefixes = _graft_costs(sides[target], waves[target], sides[origin], ids, changed)
            values[f"graft{direction}"][picked] = single
            values[f"cumulative{direction}"][picked] = prefixes
    tokens = TokenPredictions(drift_PBT, kl_PT, *_texts(read, longest, top_PT))
    return difference(
        values,
        tokens,
        floor,
        output_floor,
        changes,
        [prompt.id for prompt in read],
        (sides[0].name, sides[1].name),
        _families(models),
        sampling,
    )


def _families(models: Sequence[Model]) -> tuple[str, str]:
    """Return the type of each model's configuration, or the name of its family where it has none."""
    first, second = (str(getattr(model.hf.config, "model_type", "")) or model.anatomy.family.name for model in models)
    return first, second


def _graft_costs(
    target: _Side, wave: Wavefront, origin: _Side, ids: Sequence[Sequence[int]], changed: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return KL of a model from itself with single blocks of the other, and with all blocks up to one, [prompts, L]."""
    n_blocks = target.model.n_blocks
    # Blocks of equal weights are the block itself: their histories are the full one, and cost nothing.
    single = [grafted(n_blocks, {*changed} & {block}, _OTHER) for block in range(n_blocks)]
    prefixes = [grafted(n_blocks, {*changed} & {*range(block + 1)}, _OTHER) for block in range(n_blocks)]
    with target.running():
        costs = tree_costs(
            wave,
            Batch.of(ids, target.model.device),
            Tree([grafted(n_blocks, (), _OTHER), *single, *prefixes]),
            ("kl",),
            variants={_OTHER: origin.blocks},
        )["kl"]
    return costs[1 : n_blocks + 1].T, costs[n_blocks + 1 :].T


class _PlainPass(BoundaryReader):
    """The streams at every boundary and what the parts add, in float64 on the CPU; and the last stream as it is."""

    def __init__(self, has_parts: bool) -> None:
        super().__init__(_widen)
        self.wants_parts = has_parts
        self.parts: dict[str, list[Tensor]] = {}

    @property
    def streams(self) -> list[Tensor]:
        """[batch, tokens, width] each."""
        return self.taken

    def baseline(self, view: BaselineView) -> None:
        super().baseline(view)
        self.last_BTD = view.after_BTD
        for part, added_BTD in zip(PARTS, (view.attention_BTD, view.mlp_BTD)):
            if added_BTD is not None:
                self.parts.setdefault(part, []).append(_widen(added_BTD))


def _widen(resid_BTD: Tensor) -> Tensor:
    return resid_BTD.detach().double().cpu()


def _run_plain(side: _Side, wave: Wavefront, ids: Sequence[Sequence[int]]) -> _PlainPass:
    plain = _PlainPass(side.model.checks.parts)
    with side.running():
        wave.run(Batch.of(ids, side.model.device), [plain])
    return plain


@dataclass(frozen=True)
class _Predictions:
    """KL(A ‖ B) behind every token, [prompts, tokens], and both models' likeliest next token, [2, prompts, tokens]."""

    kl_PT: NDArray[np.float64]
    top_SPT: NDArray[np.int64]


@torch.no_grad()
def _compare_predictions(waves: Sequence[Wavefront], passes: Sequence[_PlainPass]) -> _Predictions:
    """Read both models out by their own heads, a few tokens at a time; of the second the prompts of the first."""
    shape = passes[0].last_BTD.shape[:2]
    states = [plain.last_BTD[: shape[0]].flatten(0, 1) for plain in passes]
    step = max(1, _LOGITS // waves[0].anatomy.vocabulary)
    kl_N, tops_SN = [], []
    for first in range(0, len(states[0]), step):
        logits = [wave.reader.read(state[first : first + step]).cpu() for wave, state in zip(waves, states)]
        log_p, log_q = (values.double().log_softmax(-1) for values in logits)
        # Equal logits give exactly 0: each summand is p · 0.
        kl_N.append((log_p.exp() * (log_p - log_q)).sum(-1))
        tops_SN.append(torch.stack([values.argmax(-1) for values in logits]))
    tops = torch.cat(tops_SN, dim=1).view(2, *shape).numpy()
    return _Predictions(torch.cat(kl_N).view(shape).numpy(), tops)


def _output_of(compared: _Predictions, lengths: Sequence[int]) -> list[float]:
    """Return the mean over the tokens that have a next one, for every prompt."""
    return [float(compared.kl_PT[row, : length - 1].mean()) for row, length in enumerate(lengths)]


def _texts(read: Prompts, longest: int, top_PT: NDArray[np.int64]) -> list[NDArray[np.str_]]:
    """Return the tokens of the prompts and both predictions as text, or as ids without a tokenizer."""
    ids_PT = np.array([[*prompt.ids, *[-1] * (longest - len(prompt))] for prompt in read])
    tokenizer = read.tokenizer

    def written(token: int) -> str:
        if token < 0:
            return ""
        return str(token) if tokenizer is None else str(tokenizer.decode([token]))

    text_by_id = {int(token): written(int(token)) for token in np.unique(np.concatenate([ids_PT[None], top_PT]))}
    return [np.vectorize(text_by_id.__getitem__, otypes=[str])(ids) for ids in (ids_PT, *top_PT)]


def _relative(other: Sequence[Tensor], reference: Sequence[Tensor]) -> NDArray[np.float64]:
    """Return the distance over the reference's norm at every token, [boundaries or blocks, prompts, tokens]."""
    ratios = []
    for left_BTD, right_BTD in zip(other, reference, strict=True):
        # A stream of zeros that stays one has not moved.
        norm_BT = right_BTD.norm(dim=-1).clamp_min(torch.finfo(torch.float64).tiny)
        ratios.append(((left_BTD - right_BTD).norm(dim=-1) / norm_BT).numpy())
    return np.stack(ratios)


def _means(ratio_XPT: NDArray[np.float64], lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return means over each prompt's tokens, [prompts, boundaries or blocks]."""
    return np.stack([ratio_XPT[:, row, :length].mean(-1) for row, length in enumerate(lengths)])


def _weight_changes(a: Model, b: Model) -> tuple[NDArray[np.float64], list[bool]]:
    """Return each block's ‖W_b − W_a‖ / ‖W_a‖, and whether the blocks may compute anything different."""
    # Equal weights under another configuration, with other constants (tables, scales changed in memory), or in another
    # precision, still compute something else.
    settings = [
        (config_hash(model.hf), departure_of(model.hf, config_hash(model.hf)), model.anatomy.dtype) for model in (a, b)
    ]
    same_settings = settings[0] == settings[1]
    changes, differs = [], []
    for own_block, other_block in zip(a.anatomy.blocks, b.anatomy.blocks, strict=True):
        with lent(own_block) as left, lent(other_block) as right:
            change, equal = _weight_change(left, right)
        changes.append(change)
        differs.append(not (equal and same_settings))
    return np.array(changes), differs


def _weight_change(left_block: nn.Module, right_block: nn.Module) -> tuple[float, bool]:
    """Return the relative change of a block's weights, NaN where they have other names or shapes; and equality."""
    left, right = left_block.state_dict(), right_block.state_dict()
    if {name: t.shape for name, t in left.items()} != {name: t.shape for name, t in right.items()}:
        return float("nan"), False
    squares = [0.0, 0.0]
    for name, tensor in left.items():
        if tensor.is_floating_point():
            reference = tensor.double().cpu()
            squares[0] += float((right[name].double().cpu() - reference).square().sum())
            squares[1] += float(reference.square().sum())
    equal = all(torch.equal(tensor, right[name]) for name, tensor in left.items() if tensor.dtype == right[name].dtype)
    return float(np.sqrt(squares[0] / squares[1])) if squares[1] else 0.0, equal and squares[0] == 0


def _adapter_changes(model: Model) -> tuple[NDArray[np.float64], list[bool]]:
    """Return unknown changes of weights, and which blocks hold adapters."""
    differs = [any(is_adapted(module) for module in block.modules()) for block in model.anatomy.blocks]
    return np.full(model.n_blocks, np.nan), differs
