"""What neurons do to the logits of all tokens, read from weights alone: moments, profiles by class, histograms.

Suffixes: N neurons, D channels, V tokens, C classes.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.arrays import FloatArray
from bathyscope.measures.unembedding import Unembedding
from bathyscope.statistics.moments import Moments

TILE = 1024
_TINY = 1e-30


def prepared(directions_ND: Tensor, unembedding: Unembedding) -> Tensor:
    """Output weights where the unembedding is, centred over channels where the final norm is a LayerNorm."""
    directions_ND = directions_ND.to(unembedding.kept_V.device)
    if not unembedding.centred:
        return directions_ND
    return directions_ND - directions_ND.mean(-1, keepdim=True)


def moments(directions_ND: Tensor, unembedding: Unembedding) -> Moments:
    """Moments over the vocabulary of the cosines of neurons with W_U; a neuron without weights has variance 0.

    Float32 products, float64 sums; never more than a tile of neurons × a tile of tokens at once.
    """
    own_ND = prepared(directions_ND, unembedding)
    unit_ND = own_ND / own_ND.norm(dim=-1, keepdim=True).clamp_min(_TINY)
    pieces = (Moments.of((unit_ND @ rows_VD.T).double()) for _, rows_VD in unembedding.tiles(normed=True))
    found = next(pieces)
    for piece in pieces:
        found = found.merged(piece)
    return found


def token_effects(directions_ND: Tensor, unembedding: Unembedding) -> FloatArray:
    """w_out·W_U of a few neurons, [neurons, tokens]; tokens are those of ``unembedding.kept_V``."""
    own_ND = prepared(directions_ND, unembedding)
    return torch.cat([own_ND @ rows_VD.T for _, rows_VD in unembedding.tiles()], dim=1).double().cpu().numpy()


def histograms(effects_NV: FloatArray, members_V: NDArray[np.bool_], bins: int) -> tuple[FloatArray, FloatArray]:
    """Shares of a class's tokens, and of all others, by their effect: edges [neurons, bins + 1], shares
    [neurons, 2, bins]. Each neuron has bins of its own, from its smallest to its largest effect."""
    edges = np.linspace(effects_NV.min(1), effects_NV.max(1), bins + 1, axis=1)
    shares = np.zeros((len(effects_NV), 2, bins))
    for neuron, effects_V in enumerate(effects_NV):
        for side, chosen in enumerate((members_V, ~members_V)):
            counts, _ = np.histogram(effects_V[chosen], edges[neuron])
            shares[neuron, side] = counts / max(1, chosen.sum())
    return edges, shares
