"""What is between the last block and the unembedding, computed by the model's own forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.between import as_returned
from bathyscope.model.anatomy.calls import replaced_forwards
from bathyscope.model.anatomy.plain import home_of


class _Read(Exception):  # noqa: N818 — no error: it ends a forward at the unembedding
    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = value


class OwnPath(nn.Module):
    """Makes of states what the unembedding takes: every block of the own forward hands the state on.

    Each vector is a prompt of one token, so that nothing can mix tokens; the check of the readout says whether that is
    what the model does.

    Args:
        replaced: runs functions in the place of the blocks.
        returns: by block None where it returns a tensor, else the length of the tuple.
        embedded: what of a state is in front of the first block, where the readout needs it again.
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        replaced: Callable[[Sequence[Callable[..., Any]]], AbstractContextManager[None]],
        returns: Sequence[int | None],
        embedded: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        # no submodules, or the model would be part of its own readout
        self.__dict__["_run_model"], self.__dict__["_head"] = model, head
        self._replaced, self._returns, self._embedded = replaced, tuple(returns), embedded

    @property
    def reads_embedded(self) -> bool:
        """Whether a state holds what is in front of the first block, and the readout reads it there."""
        return self._embedded is not None

    def embedded(self, state: Tensor) -> Tensor:
        """Return what of a state is in front of the first block; only where ``reads_embedded``."""
        assert self._embedded is not None
        return self._embedded(state)

    def forward(self, resid_ND: Tensor) -> Tensor:
        """Return what the unembedding takes of states [..., states' width]."""
        run_model: nn.Module = self.__dict__["_run_model"]
        state_N1D = resid_ND.flatten(0, -2)[:, None].to(home_of(run_model))
        if self.reads_embedded:
            inputs = {"inputs_embeds": self.embedded(state_N1D)}
        else:
            # which token it is makes no difference, since no block sees it
            inputs = {"input_ids": torch.zeros(len(state_N1D), 1, dtype=torch.long, device=state_N1D.device)}

        def give(returns: int | None) -> Callable[..., Any]:
            return lambda *_, **__: as_returned(state_N1D, returns)

        def read(value: Tensor) -> Any:
            raise _Read(value)

        normed: Tensor | None = None
        try:
            with (
                replaced_forwards([self.__dict__["_head"]], [read]),
                self._replaced([give(length) for length in self._returns]),
            ):
                run_model(**inputs, use_cache=False)
        except _Read as reached:
            normed = reached.value
        assert normed is not None
        # where several tokens ahead are predicted (ProphetNet), the first of them is the next one
        return normed.flatten(1, -2)[:, 0].reshape(*resid_ND.shape[:-1], -1)
