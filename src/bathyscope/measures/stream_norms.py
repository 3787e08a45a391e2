"""Norms of each of several residual streams, and of what blocks add to each."""

import torch
from torch import Tensor

from bathyscope.measures.over_tokens import mean_over_tokens
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.precision import widened
from bathyscope.wavefront.batch import Batch


class StreamNorms:
    """Collects norms and cosines by stream from the boundaries of a plain forward.

    Args:
        anatomy: of a model with several streams, which follow each other in the width of a state.
    """

    def __init__(self, anatomy: Anatomy, batch: Batch) -> None:
        self._count = anatomy.n_streams
        self._batch = batch
        self._additive_LS = torch.tensor(anatomy.additive_writes)
        self._boundaries: list[Tensor] = []
        self._writes: list[Tensor] = []
        self._cosines: list[Tensor] = []

    @property
    def reason(self) -> str:
        """Why values of what blocks add are missing; empty where none are."""
        missing = [block for block, row in enumerate(self._additive_LS.tolist()) if not all(row)]
        if not missing:
            return ""
        if len(missing) == len(self._additive_LS):
            return (
                "blocks of this family mix or scale their streams, or are not declared to only add to them, so that a "
                "stream's change is not what a block writes to it"
            )
        listed = ", ".join(map(str, missing))
        return f"in blocks {listed} the stream begins again, so that its change is not what the block writes to it"

    def add_boundary(self, resid_BTD: Tensor) -> None:
        """Note a boundary's states."""
        self._boundaries.append(torch.linalg.vector_norm(self._apart(resid_BTD), dim=-1))

    def add_block(self, before_BTD: Tensor, after_BTD: Tensor) -> None:
        """Note what a block changes."""
        before_BTSD, after_BTSD = self._apart(before_BTD), self._apart(after_BTD)
        added_BTSD = after_BTSD - before_BTSD
        self._writes.append(torch.linalg.vector_norm(added_BTSD, dim=-1))
        self._cosines.append(torch.cosine_similarity(added_BTSD, before_BTSD, dim=-1))

    def result(self) -> dict[str, Tensor]:
        """Return means over tokens, [batch, boundaries or blocks, streams]; NaN where blocks do not only add."""
        writes_PLS, cosines_PLS = self._means(self._writes), self._means(self._cosines)
        missing_LS = ~self._additive_LS
        return {
            "norm_stream": self._means(self._boundaries),
            "norm_stream_block": writes_PLS.masked_fill(missing_LS, torch.nan),
            "cos_stream_block": cosines_PLS.masked_fill(missing_LS, torch.nan),
        }

    def _apart(self, resid_BTD: Tensor) -> Tensor:
        return widened(resid_BTD).unflatten(-1, (self._count, -1))

    def _means(self, values: list[Tensor]) -> Tensor:
        """Means over tokens of lists of [batch, tokens, streams], as [batch, list, streams]."""
        values_NBT = torch.stack(values).permute(0, 3, 1, 2).flatten(0, 1)
        means_NB = mean_over_tokens(values_NBT, self._batch).cpu()
        return means_NB.unflatten(0, (len(values), self._count)).permute(2, 0, 1)
