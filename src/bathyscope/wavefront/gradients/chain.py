"""The blocks after any boundary as a differentiable function: rows of the residual stream in, predictions out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.precision import widened
from bathyscope.model.anatomy.replay import State
from bathyscope.model.anatomy.sites import replaced

Target = Literal["probability", "logit"]
"""What of the answer's tokens is summed and differentiated."""
# Some families take a forward of a single token for a step of generation, and run other code.
_SHORTEST = 2


class AnswerChain:
    """One prompt's blocks and readout, for rows that own the tokens up to the last one that predicts the answer.

    One clean row runs through everything once. It records what blocks pass on to later blocks next to the stream, and
    how much memory a row takes until its gradient has been computed. The blocks must stay usable as long as the chain.

    Args:
        answer: how many of the last ``ids`` are the answer.
        target: what is predicted of them.

    Attributes:
        probability: of the clean prompt, Σ over the answer's tokens of p(token | all before it).
        score: the same of the target.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        blocks: Sequence[nn.Module],
        ids: Tensor,
        answer: int,
        target: Target = "probability",
    ) -> None:
        length = len(ids)
        # Nobody reads the last token's prediction, unless tables that depend on the length need the whole prompt.
        self.tokens = length if anatomy.equal_lengths else max(_SHORTEST, length - 1)
        self.anatomy = anatomy
        self._blocks = blocks
        self._replay = anatomy.replay(ids[None, : self.tokens])
        self._predicting = slice(length - 1 - answer, length - 1)
        self._answer_A1 = ids[length - answer :][:, None]
        self._states: list[State] = []
        self.row_bytes: list[int] = []
        self.target: Target = target
        self.probability, self.score = self._run_clean()

    def predict(self, rows_NTD: Tensor, boundary: int) -> Tensor:
        """Return Σ over the answer's tokens of the target, [rows], for rows that begin at a boundary."""
        resid = rows_NTD
        state = self._state(boundary, len(rows_NTD))
        for index in range(boundary, len(self._blocks)):
            resid = self._replay.run(self._blocks[index], index, resid, None, state=state)
        return self._answer_score(resid, self.target)

    def rerun(self, index: int, before_TD: Tensor, part: str, added_NTD: Tensor) -> Tensor:
        """Return h_{l+1}, [rows, …], of block ``index`` run on the clean ``before_TD`` with a part replaced."""
        rows = len(added_NTD)
        block = self._blocks[index]
        before_NTD = before_TD[: self.tokens].repeat(rows, 1, 1)
        with replaced(block, self.anatomy.sites, {part: added_NTD}):
            return self._replay.run(block, index, before_NTD, None, state=self._state(index, rows))

    def _answer_score(self, final_NTD: Tensor, target: Target) -> Tensor:
        """Return Σ over the answer's tokens of their probability, or of their logit, [rows]."""
        read_NAD = final_NTD[:, self._predicting]
        logits_MV = widened(self.anatomy.readout(read_NAD.flatten(0, 1)))
        score_MV = logits_MV.softmax(-1) if target == "probability" else logits_MV
        score_NAV = score_MV.unflatten(0, read_NAD.shape[:2])
        return score_NAV.gather(-1, self._answer_A1.expand(len(final_NTD), -1, -1)).sum((1, 2))

    def _state(self, boundary: int, rows: int) -> State:
        """Return what the clean prompt's blocks before this boundary pass on, for every row."""
        passed = self._states[boundary]
        return {key: tuple(t.repeat(rows, *[1] * (t.ndim - 1)) for t in tensors) for key, tensors in passed.items()}

    def _run_clean(self) -> tuple[float, float]:
        """Return probability and target of the clean prompt.

        The states are filled, and ``row_bytes`` of a row that begins at boundary 0 … L.
        """
        saved = []
        state = State()
        resid = self._replay.recording.resid0_BTD.clone().requires_grad_()
        with saved_bytes(self.anatomy.model) as since:
            for index, block in enumerate(self._blocks):
                self._states.append(_detached(state))
                resid = self._replay.run(block, index, resid, None, state=state)
                saved.append(since())
            self._states.append(_detached(state))
            score = self._answer_score(resid, self.target)
            saved.append(since())
        self.row_bytes = list(accumulate(reversed(saved)))[::-1]
        probability = score
        if self.target != "probability":
            with torch.no_grad():
                probability = self._answer_score(resid, "probability")
        return probability.item(), score.item()


def _detached(state: State) -> State:
    return {key: tuple(t.detach() for t in tensors) for key, tensors in state.items()}


@contextmanager
def saved_bytes(model: nn.Module) -> Iterator[Callable[[], int]]:
    """Yield a function that returns how many bytes autograd has saved for the backward pass since its last call.

    Storages are counted once and the model's own not at all. Masks and rotary tables, which rows share, are counted
    too, so that many rows take slightly less than that many times one.
    """
    counted_storages = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    since = 0

    def note(tensor: Tensor) -> Tensor:
        nonlocal since
        storage = tensor.untyped_storage()
        # Saved tensors stay alive until their graph is released, so no address is used twice.
        if storage._cdata not in counted_storages:
            counted_storages.add(storage._cdata)
            since += storage.nbytes()
        return tensor

    def take_count() -> int:
        nonlocal since
        saved = since
        since = 0
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield take_count
