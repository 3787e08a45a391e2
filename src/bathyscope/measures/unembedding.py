"""The unembedding as lad2024 compares neurons with it, and what neurons do to the logits of all tokens.

With the norm's weight folded into it, the unembedding W_U says what a direction of the residual stream adds to each
token's logit, up to the norm's scale. A LayerNorm does not see what all channels share, so that W_U is centred over
channels; what all tokens' logits share changes no prediction, so that it is centred over the vocabulary.
Suffixes: V tokens, D channels, N neurons.
"""

from collections.abc import Collection, Iterator
from functools import reduce

import torch
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import ModelError
from bathyscope.model.anatomy.readout import Readout, norm_kind
from bathyscope.model.shards import whole
from bathyscope.statistics.moments import Moments

TILE = 4096
_TINY = 1e-30


class Unembedding:
    """Rows of W_U of the tokens that are part of the vocabulary; the live weights are only read.

    Args:
        vocabulary_ids: token ids that the tokenizer has; rows beyond them are padding. None = all. Rows of zeros are
            padding whatever the tokenizer says.

    Raises:
        ModelError: quantised weights, a final norm of no known kind, or no row that is a token's.
    """

    def __init__(self, readout: Readout, vocabulary_ids: Collection[int] | None = None) -> None:
        self._weight = _matrix(readout.head, "unembedding")
        self._projection = None if readout.projection is None else _matrix(readout.projection, "projection").float()
        kind = None if readout.norm is None else norm_kind(readout.norm)
        self._centres = kind is not None and kind.centred
        self._gain: Tensor | float = 1.0 if kind is None else kind.gain
        self.kept_V = self._find_tokens(vocabulary_ids)
        if not len(self.kept_V):
            raise ModelError(
                f"Neurons are compared with the unembedding, and all of its {len(self._weight)} rows are padding: they "
                "are zero, or no token of the tokenizer has their ids. Check the checkpoint and its tokenizer."
            )
        # The mean row is summed with no mean taken off yet, and is then taken off every row.
        self._mean_D: Tensor | float = 0.0
        sums = torch.stack([rows_VD.sum(0, dtype=torch.float64) for _, rows_VD in self.tiles()])
        self._mean_D = (sums.sum(0) / len(self.kept_V)).float()

    @property
    def left_out(self) -> int:
        """Rows of the matrix that are padding."""
        return len(self._weight) - len(self.kept_V)

    def tiles(self, *, normed: bool = False) -> Iterator[tuple[slice, Tensor]]:
        """[tokens, width] in float32 for one stretch of ``kept_V`` after the other.

        Args:
            normed: each row divided by its length.
        """
        for first in range(0, len(self.kept_V), TILE):
            place = slice(first, min(first + TILE, len(self.kept_V)))
            rows_VD = self._folded(self._weight[self.kept_V[place]]) - self._mean_D
            if normed:
                rows_VD = rows_VD / rows_VD.norm(dim=-1, keepdim=True).clamp_min(_TINY)
            yield place, rows_VD

    def class_directions(self, members_CV: Tensor) -> Tensor:
        """Mean over the tokens of each class minus the mean over the others, [classes, width].

        Args:
            members_CV: True where a token of ``kept_V`` belongs to a class. A class without any token, or with all
                of them, has NaN.
        """
        members = members_CV.to(self.kept_V.device, torch.float32)
        inside_CD = torch.zeros(len(members), 1, dtype=torch.float64, device=self.kept_V.device)
        total_D = torch.zeros(1, dtype=torch.float64, device=self.kept_V.device)
        for place, rows_VD in self.tiles():
            inside_CD = inside_CD + (members[:, place] @ rows_VD).double()
            total_D = total_D + rows_VD.sum(0, dtype=torch.float64)
        size_C1 = members.sum(1, keepdim=True, dtype=torch.float64)
        others_C1 = members.shape[1] - size_C1
        return (inside_CD / size_C1 - (total_D - inside_CD) / others_C1).float()

    def directions(self, directions_ND: Tensor) -> Tensor:
        """Output weights where the unembedding is, centred over channels where the final norm is a LayerNorm."""
        return self._centred(directions_ND.to(self.kept_V.device))

    def moments(self, directions_ND: Tensor) -> Moments:
        """Moments over the vocabulary of the cosines of neurons with W_U; a neuron without weights has variance 0.

        Float32 products, float64 sums; never more than the given neurons × a tile of tokens at once.
        """
        own_ND = self.directions(directions_ND)
        unit_ND = own_ND / own_ND.norm(dim=-1, keepdim=True).clamp_min(_TINY)
        pieces = (Moments.of((unit_ND @ rows_VD.T).double()) for _, rows_VD in self.tiles(normed=True))
        return reduce(Moments.merged, pieces)

    def effects(self, directions_ND: Tensor) -> FloatArray:
        """w_out·W_U of a few neurons, [neurons, tokens]; tokens are those of ``kept_V``."""
        own_ND = self.directions(directions_ND)
        return torch.cat([own_ND @ rows_VD.T for _, rows_VD in self.tiles()], dim=1).double().cpu().numpy()

    def _find_tokens(self, vocabulary_ids: Collection[int] | None) -> Tensor:
        filled_V = torch.cat([(rows != 0).any(-1) for rows in self._weight.split(TILE)])
        if vocabulary_ids is not None:
            ids = torch.tensor(
                sorted(i for i in vocabulary_ids if i < len(filled_V)), device=filled_V.device, dtype=torch.long
            )
            filled_V &= torch.zeros_like(filled_V).index_fill(0, ids, True)
        return filled_V.nonzero().flatten()

    def _folded(self, rows_VE: Tensor) -> Tensor:
        rows_VD = rows_VE.float() if self._projection is None else rows_VE.float() @ self._projection
        # A norm multiplies each channel by its weight; moved into the matrix, it leaves the scale alone.
        rows_VD = rows_VD * (self._gain.to(rows_VD.device) if isinstance(self._gain, Tensor) else self._gain)
        return self._centred(rows_VD)

    def _centred(self, rows_ND: Tensor) -> Tensor:
        return rows_ND - rows_ND.mean(-1, keepdim=True) if self._centres else rows_ND


def _matrix(module: torch.nn.Module, what: str) -> Tensor:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.element_size() == 1:
        dtype = str(weight.dtype).removeprefix("torch.") if isinstance(weight, Tensor) else "no weight"
        raise ModelError(
            f"Neurons are compared with the {what}, which cannot be read from {type(module).__name__} ({dtype}); load "
            "the model unquantised, in float32, bfloat16 or float16."
        )
    # of a head that is split over ranks, the whole matrix on each of them
    return whole(weight.detach())
