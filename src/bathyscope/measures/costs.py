"""What it costs each prompt to leave blocks out or run them again: losses at the end of a tree of histories.

Per prompt, means over the tokens that are predicted, all but the first or those of the answer: cross-entropy,
KL(full ‖ changed) and top-1 agreement with the full model, in nats and shares; and whether every token of the prompt's
answer is the most probable one, and whether its last one is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.measures.token_samples import TokenSample, reduce_by_prompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Tree, TreeRun
from bathyscope.wavefront.variants import SlotVariant

Metric = Literal["loss", "kl", "agreement", "right", "end"]
Over = Literal["tokens", "answer"]
"""Which tokens means are over: every one that has others before it, or those of the prompt's answer."""
Values = dict[Metric, NDArray[np.float64]]
_NAMES: Final[dict[Metric, str]] = {"kl": "kl_from_reference", "agreement": "top1_agreement"}
_AT_ONCE: Final = 8
"""Histories that are compared with the full model at once, which therefore costs one readout for this many."""


def tree_costs(
    wave: Wavefront,
    batch: Batch,
    tree: Tree,
    metrics: Sequence[Metric] = ("loss",),
    step: Callable[[int], None] | None = None,
    *,
    over: Over = "tokens",
    samples: Sequence[TokenSample] | None = None,
    variants: Mapping[str, SlotVariant] | None = None,
    refuses_nan: bool = True,
) -> Values:
    """Metric → [histories, prompts], by the tree's histories, of which the first is the full model.

    ``right`` and ``end`` (all tokens of the answer, and its last one) are NaN for prompts without an answer.

    Args:
        step: called with the calls of blocks made so far.
        over: of every prompt, which has to have an answer for ``answer``.
        samples: of every prompt, the tokens that are read out of them; None = all.
        variants: other modules that the tree's steps name.
        refuses_nan: raise an error where predictions are not finite; False = the caller looks.

    Raises:
        ModelError: predictions that are not finite.
    """
    landing = _Landing(wave, batch, len(tree.histories), metrics, over, samples)
    TreeRun(wave, batch, variants).run(tree, landing.land, step)
    landing.flush()
    if refuses_nan and not np.isfinite(landing.values["loss"]).all():
        raise ModelError(
            "The model with blocks left out or run again gives NaN or Inf predictions on this input; load it with a "
            "wider dtype (dtype='float32')."
        )
    return landing.values


class _Landing:
    """Reads out final states as histories end, some at a time."""

    def __init__(
        self,
        wave: Wavefront,
        batch: Batch,
        histories: int,
        metrics: Sequence[Metric],
        over: Over,
        samples: Sequence[TokenSample] | None,
    ) -> None:
        self._reader = wave.reader
        self._batch = batch
        self._compared = [metric for metric in metrics if metric in _NAMES]
        self._of_answers: list[Metric] = [metric for metric in metrics if metric in ("right", "end")]
        self.values: Values = {metric: np.full((histories, batch.size), np.nan) for metric in ("loss", *metrics)}
        # where a token that counts is predicted, and its id
        predicting = batch.predicting(answer=over == "answer")
        self._samples = samples
        if samples is not None:
            chosen_BT = torch.zeros_like(predicting)
            for prompt, sample in enumerate(samples):
                chosen_BT[prompt, list(sample.places)] = True
            predicting = predicting & chosen_BT
        self._predicting_BT = predicting
        self._targets_N = batch.ids_BT.roll(-1, dims=1)[predicting]
        self._counts = predicting.sum(1).tolist()
        self._full_ND: Tensor | None = None
        self._landed: list[tuple[list[int], Tensor]] = []

    def land(self, numbers: Sequence[int], resid_BTD: Tensor) -> None:
        """Histories have come to their end, all with this state."""
        state_ND = resid_BTD[self._predicting_BT]
        if 0 in numbers:
            self._full_ND = state_ND
        if self._of_answers:
            predicted = self._predicted_answers(resid_BTD)
            for metric in self._of_answers:
                tokens = slice(None) if metric == "right" else slice(-1, None)
                self.values[metric][list(numbers)] = [
                    float(piece[tokens].all()) if len(piece) else float("nan") for piece in predicted
                ]
        # Only the tokens that count: a history's whole state is released when this returns.
        self._landed.append((list(numbers), state_ND))
        # the full model is ahead of the others, but for those that only lack its last blocks
        if not self._compared or (self._full_ND is not None and len(self._landed) >= _AT_ONCE):
            self.flush()

    def flush(self) -> None:
        """What has landed is read out."""
        if not self._landed:
            return
        states = [state for _, state in self._landed]
        if self._compared:
            assert self._full_ND is not None
            by_name = compare(
                self._reader,
                self._full_ND,
                states,
                ["loss", *(_NAMES[metric] for metric in self._compared)],
                targets_N=self._targets_N,
            )
            self._store("loss", by_name["loss"])
            for metric in self._compared:
                self._store(metric, by_name[_NAMES[metric]])
        else:
            self._store("loss", torch.stack([self._losses(state) for state in states]))
        self._landed = []

    def _store(self, metric: Metric, values_RN: Tensor) -> None:
        if self._samples is None:
            means = torch.stack([piece.mean(-1) for piece in values_RN.split(self._counts, dim=-1)], dim=1)
        else:
            means = reduce_by_prompt(self._samples, values_RN, TokenSample.mean).T
        for (numbers, _), row in zip(self._landed, means.cpu().numpy()):
            self.values[metric][numbers] = row

    def _losses(self, state_ND: Tensor) -> Tensor:
        """Cross-entropy of every token that counts."""
        losses_N = torch.empty(len(state_ND), dtype=torch.float64, device=state_ND.device)

        def look(first: int, logits_NV: Tensor) -> None:
            tokens = slice(first, first + len(logits_NV))
            ids_N1 = self._targets_N[tokens, None]
            losses_N[tokens] = -Distribution(logits_NV).log_p_of(ids_N1)[:, 0]

        self._reader.read_in_slices(state_ND, look)
        return losses_N

    def _predicted_answers(self, resid_BTD: Tensor) -> list[Tensor]:
        """By prompt, whether each token of its answer is the most probable one."""
        top1_N = self._reader.top1(self._batch.answer_states(resid_BTD))
        return list((top1_N == self._batch.answer_ids_N).cpu().split(self._batch.answer_counts))
