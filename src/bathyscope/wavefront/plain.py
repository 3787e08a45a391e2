"""The plain forward: the model's own history, in calls of the model's own shape, so that it is bit-equal to it.

Views and results call it the baseline. It is not what changed rows are compared with: that is the control (``slots``).
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.attention import Seen, attending
from bathyscope.model.anatomy.own_stream import require_own_stream
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.sites import tapped
from bathyscope.model.memory import out_of_memory
from bathyscope.wavefront.calls import while_memory_lasts
from bathyscope.wavefront.probe import BaselineView


class PlainForward:
    """One batch, block by block; contributions of parts, and attention weights, are read where they are wanted."""

    def __init__(self, anatomy: Anatomy, replay: Replay, *, parts: bool, weights: bool) -> None:
        self._replay = replay
        self._weights = weights
        self._sites = anatomy.sites if parts else {}
        self.resid_BTD = replay.recording.resid0_BTD
        self.passed: State = {}
        """What blocks have passed on next to the stream, [batch, …] each."""
        self._finite: list[Tensor] = []

    def advance(self, block: nn.Module, index: int) -> BaselineView:
        """Move over one block and show it."""
        before = self.resid_BTD
        watch = attending(block, self._replay.batch, self._replay.tokens) if self._weights else nullcontext(Seen())
        out = None
        with while_memory_lasts(), tapped(block, self._sites) as taken, watch as seen:
            out = self._replay.run(block, index, before, state=self.passed)
        if out is None:
            prompts, tokens = before.shape[:2]
            raise out_of_memory(
                f"The model's own call of a block on {prompts} prompt{'s' if prompts > 1 else ''} of {tokens} tokens",
                before.device,
            )
        self.resid_BTD = out
        # A flag on the device; to read it here would wait for the block to end.
        self._finite.append(torch.isfinite(self.resid_BTD).all())
        parts = {part: value.to(before.device).reshape(before.shape) for part, value in taken.items()}
        return BaselineView(index, before, self.resid_BTD, parts.get("attention"), parts.get("mlp"), seen.attention)

    def require_own_stream(self, anatomy: Anatomy, ids_BT: Tensor) -> None:
        """Refuse prompts on which the own forward of a looped model, with something between its steps, differs.

        Raises:
            ModelError: it does.
        """
        if anatomy.loops is not None and anatomy.loops.between:
            require_own_stream(anatomy.model, anatomy.loops, ids_BT, self.resid_BTD)

    def require_finite(self) -> None:
        """Refuse a stream that overflowed; once at the end, so that no block waits for an accelerator.

        Raises:
            ModelError: a residual stream that is not finite, with the block where it began.
        """
        finite = torch.stack(self._finite).tolist()
        if not all(finite):
            dtype = str(self.resid_BTD.dtype).removeprefix("torch.")
            raise ModelError(
                f"Block {finite.index(False)} gives NaN or Inf on this input in {dtype}; load the model with a wider "
                "dtype (dtype='float32' or 'bfloat16')."
            )
