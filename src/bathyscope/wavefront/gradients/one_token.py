"""Every token of a prompt as a row of its own: one query, and the other tokens' keys and values as constants.

That leaves exactly the paths through a block that stay at the token. The rows run together, because the recorded
arguments describe tokens along an axis, and this axis can serve as the row axis instead.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.arguments import Path, fit_rows, rebuild, walk
from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.recording import BlockArguments
from bathyscope.model.anatomy.replay import State, unwrap


class OtherTokensCache(CaptureCache):
    """Gives every row the prompt's keys and values, its own token's replaced by the row's own.

    Args:
        captured: keys and values of the plain forward; None where the block asks for none.
        own_N1T1: True at each row's own token, [rows, 1, tokens, 1].
    """

    def __init__(self, captured: CaptureCache, own_N1T1: Tensor) -> None:
        super().__init__(captured.keys, captured.values)
        self._own_N1T1 = own_N1T1

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int = 0, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return keys and values of all tokens, [rows, heads, tokens, head width]."""
        assert self.keys is not None
        assert self.values is not None
        self.keys = torch.where(self._own_N1T1, key_states, self.keys.detach())
        self.values = torch.where(self._own_N1T1, value_states, self.values.detach())
        return self.keys, self.values


@dataclass(frozen=True)
class OneTokenRows:
    """One block of one prompt, for rows that own one token each.

    Args:
        arguments: recorded with the prompt as the only sequence.
        captured: the prompt's keys and values in this block.
        attends: the block looks at keys and values, so that it needs a mask.
    """

    arguments: BlockArguments
    captured: CaptureCache
    attends: bool
    length: int

    @property
    def is_possible(self) -> bool:
        """Whether every recorded argument with a token axis has a sequence axis before it, which rows can take."""
        axes = self.arguments.axes
        return all(
            axes[path].query is None or (axes[path].query != 0 and value.shape[0] == 1)
            for path, value in walk(self.arguments.values)
        )

    def run(self, block: nn.Module, resid_N1D: Tensor, tokens: range, state: State) -> Tensor:
        """Return the block's output for the rows of ``tokens``, [rows, 1, width].

        Args:
            state: what earlier blocks passed on, for every row; updated in place.
        """
        arguments = self.arguments
        position_T = torch.arange(self.length, device=resid_N1D.device)
        own_N = position_T[tokens.start : tokens.stop]

        def change(path: Path, value: Tensor) -> Tensor:
            axes = arguments.axes[path]
            if axes.query is None:
                return fit_rows(value, axes, None, len(tokens), start=0)
            return value.transpose(0, axes.query)[tokens.start : tokens.stop]

        row_arguments = {name: rebuild(value, change, (name,)) for name, value in arguments.values.items()}
        if self.attends and arguments.mask is not None and row_arguments.get(arguments.mask) is None:
            row_arguments[arguments.mask] = (position_T <= own_N[:, None])[:, None, None]
        if arguments.cache is not None:
            own_N1T1 = (position_T == own_N[:, None])[:, None, :, None]
            row_arguments[arguments.cache] = OtherTokensCache(self.captured, own_N1T1)
        if arguments.state is not None:
            row_arguments[arguments.state] = state
        return unwrap(block(resid_N1D, **row_arguments), resid_N1D.shape[-1])
