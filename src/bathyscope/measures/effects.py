"""Relative changes of blocks' contributions, collected while changed rows pass: what skip and direct effects share.

E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, reduced over tokens to mean, 95th percentile and maximum. Where a
contribution is nothing beside the stream, a change of it is no multiple of it: such a token is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bathyscope.labels import REDUCTIONS
from bathyscope.measures.over_tokens import LEFT_OUT, reduce_tokens
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import RowsView
from bathyscope.wavefront.rows import Request

EPS = 1e-6
FLOOR = 1e-6
"""A contribution of at most this share of the stream that it is added to is rounding: a change has no size in it."""

Cell = tuple[int, int]
"""(index of the part, block that is left out)."""


class EffectMaps:
    """Effects on all tokens and on later tokens of one batch, both [batch, part, reduction, skipped, block].

    What the definition fixes is 0 from the start and never observed: blocks before the one left out and, at later
    tokens, that block itself. A prompt without positions has NaN at later tokens.

    Args:
        everywhere: rows that are changed at all tokens, with the cell they fill.
        later: rows that are seen from a token on.
        positions: per prompt the tokens t of the later effects; all of them are pooled.
        diagonal: whether block s itself is observed (a row that leaves out a part of it passes through it).
    """

    def __init__(
        self,
        batch: Batch,
        n_blocks: int,
        everywhere: Mapping[Request, Cell],
        later: Mapping[Request, Cell],
        positions: Sequence[Sequence[int]],
        diagonal: bool = False,
    ) -> None:
        self._batch, self._everywhere, self._later, self._diagonal = batch, everywhere, later, diagonal
        parts = 1 + max(part for part, _ in everywhere.values())
        # results stay on the model's device until the batch is done: no waiting for the accelerator on the way
        device, shape = batch.ids_BT.device, (batch.size, parts, len(REDUCTIONS), n_blocks, n_blocks)
        self.all = torch.zeros(shape, dtype=torch.float64, device=device)
        self.future = torch.zeros(shape, dtype=torch.float64, device=device)
        for prompt, starts in enumerate(positions):
            if not starts:
                self.future[prompt] = torch.nan
        self.noise = torch.zeros(batch.size, dtype=torch.float64, device=device)
        self._pooled: dict[int, dict[Cell, list[Tensor]]] = {}

    def rows(self, view: RowsView) -> None:
        """Takes in one call of a block."""
        self._note_noise(view)
        wanted = self._everywhere if view.prompt is None else self._later
        found = [(i, wanted[r]) for i, served in enumerate(view.requests) for r in served if r in wanted]
        found = [(i, cell) for i, cell in found if self._is_observed(view, cell)]
        if not found:
            return
        effect_RBT = relative_change(view, [i for i, _ in found])
        cells = [cell for _, cell in found]
        if view.prompt is not None:
            self.add_later(view.prompt, dict(zip(cells, effect_RBT[:, 0])))
            return
        parts, skipped = [part for part, _ in cells], [s for _, s in cells]
        for prompt, length in enumerate(self._batch.lengths):
            reduced = reduce_tokens(effect_RBT[:, prompt, :length])
            self.all[prompt, parts, :, skipped, view.block] = reduced.T

    def add_later(self, prompt: int, effects: Mapping[Cell, Tensor]) -> None:
        """Per-token effects of the block at hand, from one starting token on."""
        pooled = self._pooled.setdefault(prompt, {})
        for cell, effect_N in effects.items():
            pooled.setdefault(cell, []).append(effect_N)

    def block_done(self, block: int) -> None:
        """Reduces what was pooled over all starting tokens."""
        for prompt, pooled in self._pooled.items():
            parts, skipped = [part for part, _ in pooled], [s for _, s in pooled]
            effect_RN = torch.stack([torch.cat(pieces) for pieces in pooled.values()])
            self.future[prompt, parts, :, skipped, block] = reduce_tokens(effect_RN).T
        self._pooled.clear()

    def _is_observed(self, view: RowsView, cell: Cell) -> bool:
        if view.block != cell[1]:
            return True
        return self._diagonal and view.prompt is None

    def _note_noise(self, view: RowsView) -> None:
        gap = control_gap(view)
        if view.prompt is not None:
            self.noise[view.prompt] = torch.maximum(self.noise[view.prompt], gap.max().double())
            return
        self.noise = torch.maximum(self.noise, gap.masked_fill(~self._batch.valid_BT, 0.0).amax(-1).double())


def relative_change(view: RowsView, rows: Sequence[int]) -> Tensor:
    """‖c̄_l − c_l‖₂ / max(‖c_l‖₂, 1e-6) of the given rows against the control, [rows, batch, tokens].

    ``LEFT_OUT`` where the contribution vanishes in the stream (see ``FLOOR``), unless a row changes none of those.
    """
    picked: slice | list[int] = list(rows)
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        picked = slice(rows[0], rows[0] + len(rows))
    control = view.control_after.float() - view.control_before.float()
    change = view.after[picked].float() - view.before[picked].float()
    gap = torch.linalg.vector_norm(change.sub_(control), dim=-1)
    return _relative(gap, control, view.control_before)


def control_gap(view: RowsView) -> Tensor:
    """How far the control's contribution is from the plain forward's, relative to it, [batch, tokens]; 0 where it
    vanishes."""
    plain = view.baseline_after.float() - view.baseline_before.float()
    control = view.control_after.float() - view.control_before.float()
    gap = torch.linalg.vector_norm(control - plain, dim=-1)
    return _relative(gap, plain, view.baseline_before).clamp_min(0.0)


def _relative(gap: Tensor, contribution: Tensor, stream: Tensor) -> Tensor:
    """``gap`` over the size of the contribution; a token where that vanishes is left out once the gap is not 0 at all
    such tokens."""
    size = torch.linalg.vector_norm(contribution, dim=-1)
    vanishes = size <= FLOOR * torch.linalg.vector_norm(stream.float(), dim=-1)
    rounding = (vanishes & (gap > 0)).any(-1, keepdim=True)
    return (gap / size.clamp_min(EPS)).masked_fill(vanishes & rounding, LEFT_OUT)
