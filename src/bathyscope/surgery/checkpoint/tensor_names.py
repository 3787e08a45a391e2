"""Which tensor of a model each tensor of its scheduled copy is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule


@dataclass(frozen=True)
class Layout:
    """Names of the copy's tensors, by those of the model.

    Args:
        blocks: path of the list of blocks.
        schedule: the block of every slot of the copy.
    """

    blocks: str
    schedule: Schedule

    def source(self, name: str) -> str:
        """Return the model's name of a tensor of the copy."""
        place = self.place(name)
        return name if place is None else self.moved(name, self.schedule.order[place])

    def place(self, name: str) -> int | None:
        """Return the slot, or block, that a tensor belongs to; None outside of them."""
        match = re.match(rf"{re.escape(self.blocks)}\.(\d+)\.", name)
        return int(match[1]) if match else None

    def moved(self, name: str, place: int) -> str:
        """Return the name of the same tensor at another place."""
        return re.sub(rf"^{re.escape(self.blocks)}\.\d+\.", lambda _: f"{self.blocks}.{place}.", name, count=1)

    def taken(self, name: str, tensors: Mapping[str, Tensor], shape: Sequence[int]) -> Tensor:
        """Return a tensor of the copy out of the model's; where an axis counts blocks, with those of the schedule."""
        value = tensors[self.source(name)]
        axis = self.axis(name, value.shape, shape)
        if axis is None:
            return value
        groups = value.unflatten(axis, (self.schedule.n_blocks, -1))
        chosen = groups.index_select(axis, groups.new_tensor(self.schedule.order).long())
        return chosen.flatten(axis, axis + 1)

    def axis(self, name: str, theirs: Sequence[int], sizes: Sequence[int]) -> int | None:
        """Return the axis along which a tensor outside of the blocks has entries for each of them; None without one.

        Raises:
            ModelError: the shapes differ otherwise.
        """
        if tuple(theirs) == tuple(sizes):
            return None
        before, after = self.schedule.n_blocks, len(self.schedule)
        differing = [axis for axis, (a, b) in enumerate(zip(theirs, sizes)) if a != b]
        # A tensor outside of the blocks may hold entries for each, such as per-layer embeddings side by side.
        if len(theirs) == len(sizes) and len(differing) == 1:
            axis = differing[0]
            if theirs[axis] % before == 0 and sizes[axis] * before == theirs[axis] * after:
                return axis
        raise ModelError(
            f"{name} is {'×'.join(map(str, theirs))} in this model and would be {'×'.join(map(str, sizes))} in one of "
            f"{after} blocks, which cannot be made of it; this order cannot be exported."
        )
