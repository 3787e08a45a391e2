"""What a block makes of a token must depend on that token and those before it alone.

Rows of a survey are other prompts and other histories side by side, padded on the right. That is right only where
later tokens, the other rows and the padding change nothing. Each is tried on every block by itself: what is compared
gets the exact stream of the plain forward, so that rounding does not add up from block to block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from bathyscope.anatomy.gaps import CHECK_TOKENS, random_ids, token_gap, token_gaps
from bathyscope.anatomy.mode import evaluating
from bathyscope.anatomy.plain import vocabulary
from bathyscope.anatomy.replay import Replay, State

_ALONE = 8
_SHORTER = 5


class Blocks(Protocol):
    """What must be known of an anatomy to try its blocks."""

    @property
    def model(self) -> nn.Module:
        """The causal language model."""

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """Its blocks in order."""

    def replay(self, ids_BT: Tensor) -> Replay:
        """Records a batch of token ids and returns what replays its blocks."""


def gaps_by_order(anatomy: Blocks, replay: Replay, boundaries: Sequence[Tensor], state: State) -> list[float]:
    """By block, how far its result strays when it is run once more, after the blocks that stand behind it.

    Args:
        boundaries: the stream before and after every block, as ``replay`` gave it.
        state: what its blocks passed on.
    """
    rows = torch.arange(replay.batch, device=boundaries[0].device)
    gaps = [0.0] * len(anatomy.blocks)
    for index in reversed(range(len(gaps))):
        again = replay.run(anatomy.blocks[index], index, boundaries[index], rows, state=dict(state))
        gaps[index] = token_gap(again, boundaries[index + 1])
    return gaps


def gaps_by_later_tokens(anatomy: Blocks, boundaries: Sequence[Tensor], ids_BT: Tensor) -> list[float]:
    """By boundary, how far the first half of the tokens strays when the ids of the second half are others."""
    half = ids_BT.shape[1] // 2
    changed = ids_BT.clone()
    changed[:, half:] = (changed[:, half:] + 1) % vocabulary(anatomy.model)
    strayed = _strayed(anatomy, [resid_BTD[:, :half] for resid_BTD in boundaries], changed)
    return [float(gaps.max()) for gaps in strayed]


@torch.no_grad()
def gaps_by_neighbours(anatomy: Blocks, *, padded: bool) -> list[float]:
    """By boundary, how far a prompt strays from itself alone when two others stand beside it.

    Below float32 it is the median token's gap: in a batch of another shape a few tokens may be routed to other experts
    by rounding alone.

    Args:
        padded: one of them is longer and one shorter; otherwise both are as long as the prompt.
    """
    ids_BT = random_ids(anatomy.model, CHECK_TOKENS, next(anatomy.model.parameters()).device)
    batch = torch.stack([ids_BT[0], ids_BT[1], ids_BT[1].flip(0)])
    if padded:
        batch[0, _ALONE:] = batch[0, _ALONE - 1]
        batch[2, _SHORTER:] = batch[2, _SHORTER - 1]
    with evaluating(anatomy.model):
        alone = anatomy.replay(ids_BT[:1, :_ALONE])
        kept: list[Tensor] = [alone.recording.resid0_BTD]
        state: State = {}
        for index, block in enumerate(anatomy.blocks):
            kept.append(alone.run(block, index, kept[-1], None, state=state))
        strayed = _strayed(anatomy, kept, batch if padded else batch[:, :_ALONE])
    narrow = any(p.element_size() < 4 for p in anatomy.model.parameters() if p.is_floating_point())
    return [float(gaps.median() if narrow else gaps.max()) for gaps in strayed]


def _strayed(anatomy: Blocks, kept: Sequence[Tensor], ids_BT: Tensor) -> list[Tensor]:
    """By boundary, gaps of the first rows and tokens of a batch, at which every block gets the stream in ``kept``.

    Everything else is tried as it is, and as copies of the first or the last vector that is kept: where tokens
    compete, a crowd of equals must move the ranks.
    """
    rows, tokens = kept[0].shape[:2]
    replay = anatomy.replay(ids_BT)
    every = torch.arange(len(ids_BT), device=ids_BT.device)
    resid_BTD = replay.recording.resid0_BTD
    state: State = {}
    gaps = [token_gaps(resid_BTD[:rows, :tokens], kept[0])]
    for index, block in enumerate(anatomy.blocks):
        worst = torch.zeros_like(gaps[0])
        first, last = (kept[index][place, place].expand_as(resid_BTD).clone() for place in (0, -1))
        before = dict(state)
        for others_BTD, passed in ((first, dict(before)), (last, dict(before)), (resid_BTD.clone(), state)):
            others_BTD[:rows, :tokens] = kept[index]
            out_BTD = replay.run(block, index, others_BTD, every, state=passed)
            worst = worst.maximum(token_gaps(out_BTD[:rows, :tokens], kept[index + 1]))
        resid_BTD = out_BTD
        gaps.append(worst)
    return gaps
