"""The anatomy of stored states: boundaries that are read where those of a model are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.recording import Recording
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.states.folder import StatesFolder
from bathyscope.model.states.head import ServedHead


@dataclass(frozen=True, repr=False)
class StoredAnatomy(Anatomy):
    """What the rest of the program knows of a model whose states are stored.

    A visit of one of its ``blocks``, which stand for the blocks between two stored boundaries, shows these two. No
    prompts of several lengths share a batch: nothing is stored for pads.

    Args:
        states: of the prompts that can be measured.
        depth: L of the model.
    """

    states: StatesFolder | None = None
    depth: int = 0

    @classmethod
    def of(cls, states: StatesFolder, head: ServedHead) -> StoredAnatomy:
        """Return the anatomy of states that a head reads."""
        return cls(
            family=head.family,
            model=head.model,
            blocks=tuple(nn.Identity() for _ in states.boundaries[1:]),
            readout=head.readout,
            width=head.width,
            vocabulary=head.vocabulary,
            parallel=head.parallel,
            returns=(),
            dtype=next(head.model.parameters()).dtype,
            states=states,
            depth=head.n_blocks,
        )

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks of the model that was served."""
        return self.depth

    @property
    def is_stored(self) -> bool:
        """Boundaries are read from files."""
        return True

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The stored boundaries."""
        assert self.states is not None
        return self.states.boundaries

    @property
    def sites(self) -> dict[str, Site]:
        """None: contributions of attention and MLP are not stored."""
        return {}

    @property
    def equal_lengths(self) -> bool:
        """Only prompts of one length share a batch."""
        return True

    def replay(self, ids_BT: Tensor) -> Replay:
        """Read the states of a batch of prompts, each without pads.

        Raises:
            ModelError: a prompt whose states are not stored, or a file that has changed.
        """
        assert self.states is not None
        rows = ids_BT.tolist()
        shape = (len(self.boundaries), len(rows), len(rows[0]), self.width)
        states_LBTD = torch.empty(shape, dtype=self.dtype)
        for number, ids in enumerate(rows):
            prompt = self.states.find(ids)
            if prompt is None:
                raise ModelError(
                    f"No states are stored for a prompt of {len(ids)} tokens that begins with {ids[:4]}. Survey the "
                    "prompts of the folder alone."
                )
            states_LBTD[:, number] = self.states.states_of(prompt).transpose(0, 1)
        return StoredReplay(states_LBTD)


class StoredReplay(Replay):
    """Shows stored boundaries where blocks would be run."""

    def __init__(self, states_LBTD: Tensor) -> None:
        super().__init__(Recording(states_LBTD[0], []), states_LBTD.shape[-1])
        self._states_LBTD = states_LBTD

    def run(self, block: nn.Module, index: int, resid_NTD: Tensor, *args: Any, **settings: Any) -> Tensor:
        """Return the boundary behind one of the stretches; nothing is run."""
        return self._states_LBTD[index + 1]
