"""Replaying recorded blocks on other histories of the residual stream."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.family import GUIDE
from bathyscope.model.anatomy.recording import Recording

State = dict[Any, tuple[Tensor, ...]]


def unwrap(output: Any, width: int | None = None) -> Tensor:
    """Return the residual stream [rows, tokens, width] from whatever a block returns.

    Args:
        width: of the residual stream; None = not known yet.

    Raises:
        ModelError: not a three-dimensional tensor of the model's width, nor a tuple that begins with one.
    """
    value = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(value, Tensor) or value.ndim != 3 or width not in (None, value.shape[-1]):
        kind = f"tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        advice = "Give the stream alone, or first in a tuple"
        if isinstance(value, Tensor) and value.ndim > 3:
            advice = "Fold several streams into the width with an adapter"
        raise ModelError(f"A block gives a {kind}, not (rows, tokens, {width or 'width'}). {advice}: {GUIDE}.")
    return value


class Replay:
    """Run single blocks of a recorded batch on any rows of it.

    Args:
        masks_by_kernel: the attention kernel aligns causal masks to the last key by itself (flash
            attention), so that a tail needs no mask where none was recorded.
    """

    def __init__(self, recording: Recording, width: int, *, masks_by_kernel: bool = False) -> None:
        self.recording = recording
        self._width = width
        self._masks_by_kernel = masks_by_kernel
        self._causal: dict[int, Tensor] = {}
        self.batch, self.tokens = recording.resid0_BTD.shape[:2]

    def run(
        self,
        block: nn.Module,
        index: int,
        resid_NTD: Tensor,
        prompts_N: Tensor | None = None,
        *,
        cache: CaptureCache | None = None,
        start: int = 0,
        attends: bool = True,
        state: State | None = None,
    ) -> Tensor:
        """Run one call of one block.

        Args:
            block: the module; its recorded arguments are those of ``index``.
            resid_NTD: rows of the residual stream, tokens ``start`` … of the recorded length.
            prompts_N: the recorded sequence each row belongs to; None = they are the recorded ones, or all of the only
                one.
            cache: takes the keys and values out, or lends a tail its prefix.
            attends: the block asked for keys and values when its donors ran (a tail then needs a mask).
            state: keys and values passed between blocks; read, and updated in place.

        Returns:
            The rows after the block, same shape.
        """
        arguments = self.recording.blocks[index]
        fitted = arguments.fit(prompts_N, resid_NTD.shape[0], start)
        # a tail without a mask would be silently wrong: sdpa aligns a causal mask to the first key, eager forms none
        if start and attends and arguments.mask is not None and fitted.get(arguments.mask) is None:
            fitted[arguments.mask] = self._tail_mask(start, resid_NTD.device)
        if cache is not None and arguments.cache is not None:
            fitted[arguments.cache] = cache
        if arguments.state is not None:
            fitted[arguments.state] = {} if state is None else state
        if arguments.stream is not None:
            out = unwrap(block(**{arguments.stream: resid_NTD}, **fitted), self._width)
        else:
            out = unwrap(block(resid_NTD, **fitted), self._width)
        # blocks may lie on several devices; the stream has one
        return out.to(resid_NTD.device)

    def passed_to(self, blocks: Sequence[nn.Module], index: int) -> State:
        """The keys and values that the blocks before ``index`` pass on; nothing is run where it takes none."""
        passed, stream = State(), self.recording.resid0_BTD
        if self.recording.blocks[index].state is not None:
            for before in range(index):
                stream = self.run(blocks[before], before, stream, state=passed)
        return passed

    def attends(self, index: int, cache: CaptureCache) -> bool:
        """Whether block ``index`` looked at keys and values: it offered its own, or may take another block's."""
        return cache.calls > 0 or self.recording.blocks[index].state is not None

    def _tail_mask(self, start: int, device: torch.device) -> Tensor | None:
        if self._masks_by_kernel:
            return None
        if start not in self._causal:
            full = torch.ones(self.tokens, self.tokens, dtype=torch.bool, device=device).tril()
            self._causal[start] = full[start:][None, None]
        return self._causal[start]
