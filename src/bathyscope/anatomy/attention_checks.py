"""Whether a model's attention weights can be seen, and whether what is seen is what it attends with."""

from __future__ import annotations

import torch
from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.attention import Fused, Seen, attending
from bathyscope.anatomy.gaps import CHECK_TOKENS, random_ids, tolerance
from bathyscope.anatomy.mode import evaluating
from bathyscope.anatomy.plain import home_of
from bathyscope.anatomy.replay import State
from bathyscope.errors import ModelError


@torch.no_grad()
def attention_heads(anatomy: Anatomy) -> tuple[int, ...]:
    """The number of attention heads of every block, 0 where a block shows no attention weights.

    Found on a short random batch. In every block that shows weights they must be at least 0, sum to at most 1 for
    each query (an attention sink takes the rest) and never lie on later tokens. Where the fused kernel attends,
    they must also turn its values into its result.

    Raises:
        ModelError: no block shows weights, or what is seen fails one of these tests.
    """
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    ids_BT = random_ids(anatomy.model, CHECK_TOKENS, home_of(anatomy.model))
    heads: list[int] = []
    with evaluating(anatomy.model):
        replay = anatomy.replay(ids_BT)
        resid_BTD = replay.recording.resid0_BTD
        rows = torch.arange(len(ids_BT), device=ids_BT.device)
        state: State = {}
        for index, block in enumerate(anatomy.blocks):
            with attending(block, *ids_BT.shape) as seen:
                resid_BTD = replay.run(block, index, resid_BTD, rows, state=state)
            heads.append(0 if seen.attention is None else seen.attention.size[1])
            _require_sound(seen, index, anatomy, tolerance(parameter.dtype))
    if not any(heads):
        raise ModelError(
            f"No block of this {anatomy} model shows attention weights: none comes out of an attention module, "
            "and torch's fused kernel is not used. State-space, recurrent and convolution mixers have none. Kernels "
            "that hide them (flash attention) can be avoided: load the model with attn_implementation='sdpa' or "
            "'eager'."
        )
    return tuple(heads)


def _require_sound(seen: Seen, index: int, anatomy: Anatomy, allowed: float) -> None:
    attention = seen.attention
    if attention is None:
        return
    fault = _fault(torch.cat([chunk for _, chunk in attention.chunks()], dim=2), allowed)
    if seen.ways > 1:
        fault = f"are {seen.ways} different maps"
    elif not fault and isinstance(attention, Fused) and not attention.gap() <= allowed:
        fault = f"give another result than its attention does (gap {attention.gap():.1e}, allowed {allowed:.0e})"
    if fault:
        raise ModelError(
            f"The attention weights seen in block {index} of this {anatomy} model {fault}, so that it cannot be "
            "said where the block attends."
        )


def _fault(weights_NHTK: Tensor, allowed: float) -> str:
    """What attention weights cannot be, or nothing."""
    total = float(weights_NHTK.sum(-1).max())
    if not float(weights_NHTK.min()) >= 0:
        return "are not all 0 or more"
    if not total <= 1 + allowed:
        return f"sum to {total:.3g} for one query"
    if weights_NHTK.triu(1).any():
        return "also lie on later tokens"
    return ""
