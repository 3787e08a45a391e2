"""Values of single tokens that measures form on the way to their means, kept for some tokens of some prompts."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from bathyscope.wavefront.batch import Batch

NO_TOKEN: Final = -1
"""In the place of an id where a prompt has no token."""


class TokenValues:
    """Where measures leave what they know of single tokens of a batch, by variable.

    Args:
        chosen: which prompts of the batch are kept.
        width: how many tokens of each, the first ones.
    """

    def __init__(self, batch: Batch, chosen: Sequence[int], width: int) -> None:
        self._batch = batch
        self._chosen = chosen
        self._width = width
        self.values: dict[str, Tensor] = {}
        self.coords: dict[str, Sequence[int]] = {}
        self._steps: dict[str, list[Tensor]] = {}

    def put(self, name: str, values_N: Tensor, **coords: Sequence[int]) -> None:
        """Values of all real tokens [..., N], prompt after prompt.

        Args:
            coords: places along a dimension whose places nobody else tells.
        """
        by_prompt = self._batch.split(values_N)
        empty = NO_TOKEN if not values_N.is_floating_point() else torch.nan
        padded = values_N.new_full((len(self._chosen), *values_N.shape[:-1], self._width), empty)
        for place, prompt in enumerate(self._chosen):
            piece = by_prompt[prompt][..., : self._width]
            padded[place, ..., : piece.shape[-1]] = piece
        # Half the bytes: values of single tokens are looked at, and means are taken elsewhere, in float64.
        self.values[name] = padded.float() if padded.is_floating_point() else padded.int()
        self.coords.update(coords)

    def step(self, name: str, values_BT: Tensor) -> None:
        """The next block's or boundary's values of all tokens [batch, tokens], pads among them."""
        self._steps.setdefault(name, []).append(self._batch.flat(values_BT))

    def collect(self) -> dict[str, Tensor]:
        """[prompt, …, token] of every variable."""
        for name, steps in self._steps.items():
            self.put(name, torch.stack(steps))
        self._steps.clear()
        return self.values
