"""Straight paths from a baseline to the actual activations of one site of one block.

Sites: ``block`` (x = h_{l+1}), ``attention`` (x = a_l) and ``mlp`` (x = m_l). Every path is followed as rows of
the residual stream at boundary l+1. A contribution that is the block's last sum enters that stream linearly, so
that moving it moves h_{l+1} by as much; only an earlier one needs its own block to be run again.
"""

from dataclasses import dataclass

from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.gradients.trajectory import Trajectory


@dataclass(frozen=True)
class Path:
    """x(α) = end − (1 − α) · delta at all tokens jointly.

    Args:
        end_TD: where it ends (α = 1): h_{l+1}, or the contribution itself where ``part`` is given.
        delta_TD: x − x̃ in float64, times what multiplies x where it is added.
        part: the contribution that must be replaced inside the block; None = the path is one of h_{l+1}.
    """

    end_TD: Tensor
    delta_TD: Tensor
    part: str | None = None

    def points(self, alphas_N: Tensor) -> Tensor:
        """x(α) for every α, [nodes, tokens, width], as leaves of the graph."""
        back_NTD = (1 - alphas_N)[:, None, None] * self.delta_TD
        return (self.end_TD.double() - back_NTD).to(self.end_TD.dtype).requires_grad_()


def enters_linearly(anatomy: Anatomy, part: str) -> bool:
    """Nothing in the block reads the stream after this part's contribution was added."""
    # contributions of neither kind come after the MLP's
    return anatomy.parallel or (part == "mlp" and not any(name.startswith("other") for name in anatomy.sites))


def path_of(anatomy: Anatomy, trajectory: Trajectory, index: int, site: str, baseline: str, tokens: int) -> Path:
    """The path of one site of block ``index``.

    Args:
        baseline: "tokens" = x̃ is the mean of x over all tokens of the prompt; "channels" = each token's mean over
            its channels (what hu2025's published code computes).
        tokens: how many first tokens to keep, after the mean was taken.
    """
    after_TD = trajectory.boundaries[index + 1]
    x_TD = (after_TD if site == "block" else trajectory.parts[site][index]).double()
    delta_TD = (x_TD - x_TD.mean(0 if baseline == "tokens" else 1, keepdim=True))[:tokens]
    if site == "block":
        return Path(after_TD[:tokens], delta_TD)
    if enters_linearly(anatomy, site):
        return Path(after_TD[:tokens], delta_TD * anatomy.block_scale(anatomy.blocks[index]))
    return Path(trajectory.parts[site][index][:tokens], delta_TD, site)
