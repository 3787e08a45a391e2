"""What a block makes of a token must depend on that token and those before it alone.

Rows of a survey are other prompts and other histories side by side, padded on the right. That is right only where
later tokens, the other rows and the padding change nothing. Each is tried on every block by itself: what is compared
gets the exact stream of the plain forward, so that rounding does not add up from block to block.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.gaps import random_ids, token_gap, token_gaps
from bathyscope.model.anatomy.plain import is_unpacked, vocabulary
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.steps import Steps

_ALONE = 8
_SHORTER = 5


class Blocks(Protocol):
    """What must be known of an anatomy to try its blocks."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def blocks(self) -> tuple[nn.Module, ...]: ...

    def replay(self, ids_BT: Tensor) -> Replay: ...


def gaps_by_order(
    anatomy: Blocks, replay: Replay, boundaries: Sequence[Tensor], states: Sequence[State]
) -> list[float]:
    """Measure by block how far its result strays when it is run once more, after the blocks behind it.

    Args:
        boundaries: the stream before and after every block, as ``replay`` gave it.
        states: by block what was passed on to it.
    """
    gaps = [0.0] * len(anatomy.blocks)
    for index in reversed(range(len(gaps))):
        again = replay.run(anatomy.blocks[index], index, boundaries[index], state=dict(states[index]))
        gaps[index] = token_gap(again, boundaries[index + 1])
    return gaps


def gaps_by_later_tokens(anatomy: Blocks, boundaries: Sequence[Tensor], ids_BT: Tensor) -> Steps[list[float]]:
    """Measure by boundary how far the first half of the tokens strays when the ids of the second half are others.

    Args:
        boundaries: the plain stream; may grow, as long as it is a block ahead.
    """
    half = ids_BT.shape[1] // 2
    changed = ids_BT.clone()
    changed[:, half:] = (changed[:, half:] + 1) % vocabulary(anatomy.model)
    worst_by_boundary = []
    for gaps in _strayed(anatomy, boundaries, (len(ids_BT), half), changed):
        worst_by_boundary.append(float(gaps.max()))
        yield
    return worst_by_boundary


def gaps_by_neighbours(anatomy: Blocks, *, padded: bool) -> Steps[list[float]]:
    """Measure by boundary how far a prompt strays from itself alone when two others share its batch.

    Below float32 it is the median token's gap: in a batch of another shape a few tokens may be routed to other experts
    by rounding alone.

    Args:
        padded: one of them is longer and one shorter; otherwise both are as long as the prompt.
    """
    ids_BT = random_ids(anatomy.model)
    batch = torch.stack([ids_BT[0], ids_BT[1], ids_BT[1].flip(0)])
    if padded:
        batch[0, _ALONE:] = batch[0, _ALONE - 1]
        batch[2, _SHORTER:] = batch[2, _SHORTER - 1]
    narrow = any(p.element_size() < 4 for p in anatomy.model.parameters() if p.is_floating_point())
    alone = anatomy.replay(ids_BT[:1, :_ALONE])
    boundaries: list[Tensor] = [alone.recording.resid0_BTD]
    strayed = _strayed(anatomy, boundaries, (1, _ALONE), batch if padded else batch[:, :_ALONE])
    state: State = {}
    gaps = [next(strayed)]
    yield
    for index, block in enumerate(anatomy.blocks):
        boundaries.append(alone.run(block, index, boundaries[-1], state=state))
        gaps.append(next(strayed))
        yield
    return [float(token_gaps_BT.median() if narrow else token_gaps_BT.max()) for token_gaps_BT in gaps]


def _strayed(
    anatomy: Blocks, boundaries: Sequence[Tensor], counted: tuple[int, int], ids_BT: Tensor
) -> Iterator[Tensor]:
    """Yield by boundary the gaps of the counted rows and tokens, where every block gets the stream in ``boundaries``.

    Everything else is tried as it is, and as copies of the first or the last counted vector: where tokens compete, a
    crowd of equals must move the ranks. Other rows are also tried as louder and as quieter ones, for blocks that are
    passed over by a test on the whole call.

    Args:
        boundaries: the stream at every boundary; may grow, as long as it is a block ahead.
        counted: how many of the first rows and tokens are compared with it.
    """
    rows, tokens = counted
    replay = anatomy.replay(ids_BT)
    # kernels for few bits choose their scale over a whole call, of which users are warned
    packed = getattr(anatomy.model.config, "quantization_config", None) is not None and not is_unpacked(anatomy.model)
    resid_BTD = replay.recording.resid0_BTD
    state: State = {}
    yield token_gaps(resid_BTD[:rows, :tokens], boundaries[0][:, :tokens])
    for index, block in enumerate(anatomy.blocks):
        counted_RTD, expected = boundaries[index][:, :tokens], boundaries[index + 1][:, :tokens]
        first, last = (counted_RTD[place, place].expand_as(resid_BTD).clone() for place in (0, -1))
        before = dict(state)
        worst = torch.zeros(rows, tokens, device=resid_BTD.device)
        for others_BTD, passed in ((first, dict(before)), (last, dict(before)), (resid_BTD.clone(), state)):
            others_BTD[:rows, :tokens] = counted_RTD
            out_BTD = replay.run(block, index, others_BTD, state=passed)
            worst = worst.maximum(token_gaps(out_BTD[:rows, :tokens], expected))
        resid_BTD = out_BTD
        if rows < len(ids_BT) and not packed:
            worst = worst.maximum(_gaps_next_to_extremes(replay, block, index, others_BTD, counted, expected, before))
        yield worst


_LOUD = 4.0
_QUIET = 0.01


def _gaps_next_to_extremes(
    replay: Replay,
    block: nn.Module,
    index: int,
    resid_BTD: Tensor,
    counted: tuple[int, int],
    expected: Tensor,
    state: State,
) -> Tensor:
    """Measure gaps of the counted rows and tokens where all other rows are louder, of either sign, or nearly silent.

    Next to louder ones they also come last, so that a test on the first row of a call shows too.
    """
    rows, tokens = counted
    worst = torch.zeros(rows, tokens, device=resid_BTD.device)
    largest = float(resid_BTD.abs().max().clamp_min(1e-12))
    # float16 ends at 65,504, which a massive activation times four may pass
    room = torch.finfo(resid_BTD.dtype).max / (8 * largest)
    loud = min(_LOUD, room)
    for factor, backwards in ((-loud, False), (loud, not state), (_QUIET, False)):
        others_BTD = resid_BTD.clone()
        # of one sign, so that sums and means over the call move too
        others_BTD[rows:] = factor * others_BTD[rows:].abs()
        prompts_N = torch.arange(len(others_BTD), device=resid_BTD.device)
        if backwards:
            others_BTD, prompts_N = others_BTD.flip(0), prompts_N.flip(0)
        out_BTD = replay.run(block, index, others_BTD, prompts_N, state=dict(state))
        out_BTD = out_BTD.flip(0) if backwards else out_BTD
        worst = worst.maximum(token_gaps(out_BTD[:rows, :tokens], expected))
    return worst


_LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")


def depends_on_padding(config: Any) -> bool:
    """Whether the configuration says that only prompts of one length may share a batch.

    Rotary tables that change with the length of a forward (longrope, dynamic NTK), and attention that picks its
    keys by rank (``index_topk``): equal ranks are resolved by where they are among all padded tokens.
    """
    if getattr(config, "index_topk", None):
        return True
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    return any(kind.get("rope_type", kind.get("type")) in _LENGTH_DEPENDENT_ROPE for kind in kinds)
