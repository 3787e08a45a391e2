"""What the plain forward of one prompt went through: the streams that gradients start from."""

from dataclasses import dataclass, field

from torch import Tensor

from bathyscope.wavefront.probe import BaselineView


@dataclass
class Trajectory:
    """One prompt's residual stream and contributions, filled block by block.

    Args:
        prompt: its number in the batch.
        length: its tokens; pads are left out.
        boundaries: h_0 … h_L, [tokens, width] each.
        parts: ``attention`` and ``mlp`` → a_l and m_l of every block, [tokens, width] each; empty where the
            family has no separable parts.
    """

    prompt: int
    length: int
    boundaries: list[Tensor] = field(default_factory=list)
    parts: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, view: BaselineView) -> None:
        """Keeps the prompt's share of one block of the plain forward."""
        if view.block == 0:
            self.boundaries.append(self._take(view.before_BTD))
        self.boundaries.append(self._take(view.after_BTD))
        for part, added_BTD in (("attention", view.attention_BTD), ("mlp", view.mlp_BTD)):
            if added_BTD is not None:
                self.parts.setdefault(part, []).append(self._take(added_BTD))

    def _take(self, values_BTD: Tensor) -> Tensor:
        return values_BTD[self.prompt, : self.length].clone()  # a view would keep the whole batch in memory
