"""The model of a schedule in memory: a model of its own, whose weights are the other's until they are changed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.anatomy.family import Family
from bathyscope.schedule import Schedule
from bathyscope.surgery.layout import Layout
from bathyscope.surgery.outline import fill, skeleton
from bathyscope.surgery.proof import require_same
from bathyscope.surgery.rewriting import rewritten


class ScheduledCopy:
    """A model built from the rewritten configuration on the tensors of another.

    Args:
        hf: the model.
        schedule: the block of every slot of the copy.
        family: where its parts are.

    Raises:
        ModelError: the family's configuration cannot say this order.
    """

    def __init__(self, hf: PreTrainedModel, schedule: Schedule, family: Family | None = None) -> None:
        config = rewritten(hf.config, schedule)
        self.schedule = schedule
        self.layout = Layout(require_same(hf.config, config, schedule, family), schedule)
        theirs = hf.state_dict()
        self.hf = skeleton(config)
        self._lent: dict[str, Tensor] = {}

        def lent(name: str, like: Tensor) -> Tensor:
            self._lent[name] = self.layout.taken(name, theirs, tuple(like.shape)).detach()
            return self._lent[name]

        with torch.no_grad():
            fill(self.hf, lent)
        self.hf.to(next(hf.parameters()).device).eval()  # type: ignore[arg-type]

    @property
    def slots(self) -> nn.ModuleList:
        """The copy's blocks."""
        found = self.hf.get_submodule(self.layout.blocks)
        assert isinstance(found, nn.ModuleList)
        return found

    def changes(self) -> dict[str, Tensor]:
        """The weights that are no longer the other model's, by the copy's names."""
        now = self.hf.state_dict()
        return {name: now[name] for name, was in self._lent.items() if now[name].data_ptr() != was.data_ptr()}
