"""The two models of a comparison: how each runs, what it predicts, and how far rounding alone moves both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.analysis.between.parting import PARTS
from bathyscope.analysis.between.rounding import RandomRounding
from bathyscope.core.arrays import FloatArray, mean_of_known
from bathyscope.errors import ModelError
from bathyscope.model import Model
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.streaming.lending import lent
from bathyscope.wavefront.adapters import adapters, require_adapters
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import BoundaryReader
from bathyscope.wavefront.plain import PlainForward
from bathyscope.wavefront.probe import BaselineView
from bathyscope.wavefront.variants import SlotVariant

_LOGITS: Final = 1 << 22
"""Logits of either model that are compared at once: 32 MiB each in float64."""
_SEEDS: Final = (0, 1)
"""Of the forwards with random rounding; one more turns close choices of experts round."""


@dataclass(frozen=True)
class ModelSide:
    """One of the two models.

    Args:
        name: for the result.
        blocks: its blocks, as the other model may hold them.
        running: a context in which the model is this side; whatever is computed with it is computed there.
        tokens: ids whose predictions are compared; None = all of the vocabulary.
    """

    model: Model
    name: str
    blocks: SlotVariant
    running: Callable[[], AbstractContextManager[object]] = nullcontext
    tokens: Sequence[int] | None = None

    @cached_property
    def wave(self) -> Wavefront:
        """What runs its blocks."""
        return Wavefront(self.model.anatomy, tails=False)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let the model be this side inside, in evaluation mode, for what is computed outside of a wave."""
        with self.running(), evaluating(self.model.anatomy.model), torch.no_grad():
            yield


def require_same_shape(a: Model, b: Model) -> None:
    """Refuse models whose blocks cannot take each other's places.

    Raises:
        ModelError: different widths or numbers of blocks.
    """
    facts = {
        "blocks differ": (a.n_blocks, b.n_blocks),
        "width differs": (a.anatomy.width, b.anatomy.width),
    }
    for difference, (left, right) in facts.items():
        if left != right:
            raise ModelError(
                f"diff needs two models of one shape, and their {difference} ({left} and {right}). Use cka or maps "
                "to compare models of different shapes."
            )


def sides_of_models(a: Model, b: Model) -> tuple[ModelSide, ModelSide]:
    """Return two models.

    Raises:
        ModelError: they are not of one shape.
    """
    require_same_shape(a, b)
    first, second = (ModelSide(model, model.name, SlotVariant.of_model(model.anatomy)) for model in (a, b))
    return first, second


def sides_of_adapters(model: Model) -> tuple[ModelSide, ModelSide]:
    """Return a model with its adapters on, and off.

    Raises:
        ModelError: no adapters, or merged ones.
    """
    require_adapters(model.hf)

    def side(name: str, on: bool) -> ModelSide:
        return ModelSide(model, name, SlotVariant.of_adapters(model.anatomy, on=on), partial(adapters, model.hf, on=on))

    return side(model.name, True), side(f"{model.name} without adapters", False)


@dataclass
class SidePass:
    """A forward of one side.

    Args:
        side: the model, which also reads its own predictions out.
        last_BTD: the stream behind the last block.
        streams: at every boundary, [batch, tokens, width] each, in float64 on the CPU; empty where they were not kept.
        parts: what attention and MLP add, block after block, likewise.
        rounding: how its operations are rounded; None = as the model rounds them.
    """

    side: ModelSide
    last_BTD: Tensor
    streams: list[Tensor] = field(default_factory=list)
    parts: dict[str, list[Tensor]] = field(default_factory=dict)
    rounding: RandomRounding | None = None

    def logits(self, tokens: slice) -> Tensor:
        """Return the logits behind some of all tokens, read out while the model is this side."""
        with self.side.computing(), self.rounding or nullcontext():
            return self.side.wave.reader.read(self.last_BTD.flatten(0, 1)[tokens]).cpu()


class _StreamReader(BoundaryReader):
    """Keeps the streams at every boundary and what the parts add, and the last stream as it is."""

    def __init__(self, has_parts: bool) -> None:
        super().__init__(_widen)
        self.wants_parts = has_parts
        self.parts: dict[str, list[Tensor]] = {}

    def baseline(self, view: BaselineView) -> None:
        super().baseline(view)
        self.last_BTD = view.after_BTD
        for part, added_BTD in zip(PARTS, (view.attention_BTD, view.mlp_BTD)):
            if added_BTD is not None:
                self.parts.setdefault(part, []).append(_widen(added_BTD))


def _widen(resid_BTD: Tensor) -> Tensor:
    return resid_BTD.detach().double().cpu()


def run_plain(side: ModelSide, ids: Sequence[Sequence[int]]) -> SidePass:
    """Run a side on token ids, with its streams and what its parts add."""
    reader = _StreamReader(side.model.checks.parts)
    with side.running():
        side.wave.run(Batch.of(ids, side.model.device), [reader])
    return SidePass(side, reader.last_BTD, reader.taken, reader.parts)


def rounding_of(plain: SidePass, ids: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how far rounding moves a side from itself: its streams, and its predictions.

    Returns:
        Drift [prompts, boundaries], the largest of several forwards with random rounding (``rounding``), each a mean
        over tokens; and likewise the KL divergence from the plain forward in nats a token, [prompts].
    """
    lengths = [len(prompt_ids) for prompt_ids in ids]
    drifts: list[FloatArray] = []
    outputs: list[FloatArray] = []
    choices: list[Any] = []
    for seed in (*_SEEDS, len(_SEEDS)):
        rounding = RandomRounding(seed, choices if seed == len(_SEEDS) else ())
        drift_BPT, rounded = _run_rounded(plain, ids, rounding)
        choices.append(rounding.choices)
        drifts.append(token_means(drift_BPT, lengths))
        outputs.append(np.abs(output_of(compare_predictions(plain, rounded), lengths)))
    return np.max(drifts, axis=0), np.max(outputs, axis=0)


def _run_rounded(
    plain: SidePass, ids: Sequence[Sequence[int]], rounding: RandomRounding
) -> tuple[NDArray[np.float64], SidePass]:
    """Return the drift from the plain forward, [boundaries, prompts, tokens], and the forward."""
    side, anatomy = plain.side, plain.side.model.anatomy
    with side.computing():
        replay = anatomy.replay(Batch.of(ids, side.model.device).ids_BT)
        forward = PlainForward(anatomy, replay, parts=False, weights=False)
        forward.resid_BTD = rounding.embedded(forward.resid_BTD)
        drifts = [_relative_to(plain.streams[0], _widen(forward.resid_BTD))]
        for index, stored in enumerate(anatomy.blocks):
            with lent(stored) as block, rounding:
                forward.advance(block, index)
            drifts.append(_relative_to(plain.streams[index + 1], _widen(forward.resid_BTD)))
    return np.stack(drifts), SidePass(side, forward.resid_BTD, rounding=rounding)


@dataclass(frozen=True)
class PredictionPair:
    """KL(A ‖ B) behind every token, [prompts, tokens], and both models' likeliest next token, [2, prompts, tokens]."""

    kl_PT: NDArray[np.float64]
    top_SPT: NDArray[np.int64]


def compare_predictions(first: SidePass, second: SidePass) -> PredictionPair:
    """Compare what two forwards on the same tokens predict, each read out by its own model, a few tokens at a time.

    Where the sides have only some tokens in common, both predictions are of these, as if no other could come.
    """
    ids = first.side.tokens
    shape = first.last_BTD.shape[:2]
    step = max(1, _LOGITS // first.side.model.anatomy.vocabulary)
    kl_N, tops_SN = [], []
    for start in range(0, shape[0] * shape[1], step):
        logits = [forward.logits(slice(start, start + step)) for forward in (first, second)]
        if ids is not None:
            logits = [values[:, ids] for values in logits]
        log_p, log_q = (values.double().log_softmax(-1) for values in logits)
        # Equal logits give exactly 0: each summand is p · 0. Entries that no model may predict (−∞) add nothing.
        p = log_p.exp()
        kl_N.append(torch.where(p > 0, p * (log_p - log_q), 0.0).sum(-1))
        tops_SN.append(torch.stack([values.argmax(-1) for values in logits]))
    tops = torch.cat(tops_SN, dim=1).view(2, *shape).numpy()
    if ids is not None:
        tops = np.asarray(ids)[tops]
    return PredictionPair(torch.cat(kl_N).view(shape).numpy(), tops)


def output_of(pair: PredictionPair, lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean KL divergence over the tokens that have a next one, [prompts]."""
    return np.array([pair.kl_PT[row, : length - 1].mean() for row, length in enumerate(lengths)])


def relative(other: Sequence[Tensor], reference: Sequence[Tensor]) -> NDArray[np.float64]:
    """Return the distance over the reference's norm at every token, [boundaries or blocks, prompts, tokens]."""
    pairs = zip(other, reference, strict=True)
    return np.stack([_relative_to(right_BTD, left_BTD) for left_BTD, right_BTD in pairs])


def part_drift(other: Sequence[Tensor], reference: Sequence[Tensor], lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return how far what a part adds lies from what it adds in the reference, over its size there, [prompts, blocks].

    A mean over the tokens at which the part adds something in the reference, or nothing in either; NaN without any.
    Blocks that a model has grown by write zeros before they are trained.
    """
    ratio_LPT = relative(other, reference)
    begins_LPT = np.stack(
        [((left.norm(dim=-1) == 0) & (right.norm(dim=-1) > 0)).numpy() for left, right in zip(reference, other)]
    )
    ratio_LPT[begins_LPT] = np.nan
    return np.stack([mean_of_known(ratio_LPT[:, row, :length], axis=-1) for row, length in enumerate(lengths)])


def _relative_to(reference_BTD: Tensor, other_BTD: Tensor) -> NDArray[np.float64]:
    # A stream of zeros that stays one has not moved.
    norm_BT = reference_BTD.norm(dim=-1).clamp_min(torch.finfo(torch.float64).tiny)
    ratio_BT: NDArray[np.float64] = ((other_BTD - reference_BTD).norm(dim=-1) / norm_BT).numpy()
    return ratio_BT


def token_means(ratio_XPT: NDArray[np.float64], lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return means over each prompt's tokens, [prompts, boundaries or blocks]."""
    return np.stack([ratio_XPT[:, row, :length].mean(-1) for row, length in enumerate(lengths)])
