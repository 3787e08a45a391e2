"""The check before a schedule is entered: does the model's own forward give what replayed blocks give?"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.gaps import CHECK_TOKENS, gap, random_ids, tolerance
from bathyscope.anatomy.plain import home_of
from bathyscope.anatomy.recording import CACHE_NAMES
from bathyscope.anatomy.replay import State
from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule
from bathyscope.surgery.chain import Arguments, Chain

_CONTINUED = 2
"""Tokens that are run one at a time on a cache."""
_STEPWISE = 1e-3
"""What counts as equal there: recurrent states sum in another order token by token than over whole prompts."""


@torch.no_grad()
def expected_logits(anatomy: Anatomy, schedule: Schedule, arguments: Arguments) -> Tensor:
    """Logits [2, T, V] of a short random batch, from blocks replayed one at a time. Run before the exchange."""
    ids = random_ids(anatomy.model, CHECK_TOKENS, home_of(anatomy.model))
    replay = anatomy.replay(ids)
    stream = replay.recording.resid0_BTD
    every = torch.arange(len(ids), device=ids.device)
    state: State = {}
    for slot, block in enumerate(schedule):
        source = block if arguments == "block" else slot
        stream = replay.run(anatomy.blocks[block], source, stream, every, state=state)
    return anatomy.readout(stream)


@torch.no_grad()
def require_parity(hf: nn.Module, expected: Tensor, chain: Chain, schedule: Schedule) -> None:
    """Compares; where only runs on a cache differ, the chain refuses them from then on.

    Raises:
        ModelError: the forward differs from the replayed blocks, with the measured gap.
    """
    parameter = next(p for p in hf.parameters() if p.is_floating_point())
    ids, allowed = random_ids(hf, CHECK_TOKENS, home_of(hf)), tolerance(parameter.dtype)
    found = hf(input_ids=ids, use_cache=False, return_dict=True).logits
    apart = gap(found, expected)
    if not apart <= allowed:
        raise ModelError(
            f"{type(hf).__name__} does not run this schedule ({schedule}) rightly: its logits differ from those of "
            f"replayed blocks by {apart:.1e} of the largest (allowed {allowed:.0e})."
        )
    continued = _on_a_cache(hf, ids)
    if isinstance(continued, str):
        chain.refuses_cache = f"This model cannot go on from a cache under a schedule: {continued}."
    elif not (apart := gap(continued, found)) <= max(allowed, _STEPWISE):
        chain.refuses_cache = (
            f"Going on from a cache changes this model's logits under a schedule by {apart:.1e} of the largest "
            f"(allowed {max(allowed, _STEPWISE):.0e})."
        )


def _on_a_cache(hf: nn.Module, ids_BT: Tensor) -> Tensor | str:
    """Logits [2, T, V] with the last tokens run one at a time; or why that cannot be done."""
    name = next((name for name in CACHE_NAMES if name in inspect.signature(hf.forward).parameters), None)
    if name is None:
        return "it takes no cache of the library's kind"
    kept: dict[str, Any] = {name: DynamicCache(config=hf.config)}  # type: ignore[arg-type]
    pieces = [ids_BT[:, :-_CONTINUED], *ids_BT[:, -_CONTINUED:].split(1, dim=1)]
    try:
        outs = [hf(input_ids=piece, use_cache=True, return_dict=True, **kept) for piece in pieces]
    except (RuntimeError, TypeError, AttributeError, ValueError, LookupError) as error:
        # whatever a family raises when it goes on from a cache answers the question
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return torch.cat([out.logits for out in outs], dim=1)
