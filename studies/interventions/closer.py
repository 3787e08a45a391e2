"""Which part of a massive contribution the model needs: looked at after the bounds had been measured, on SmolLM2 alone.

Hooks on single MLPs change what they add, and the loss is read off plain forwards. Nothing here was expected before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope import Model
from bathyscope.extend.prompts import tokenized

WRITER: Final = 11
"""The block that writes the massive activation."""
TAKERS: Final = (28, 29)
"""The blocks that take it away."""
Change = Callable[[Tensor, float], Tensor]
"""What an MLP adds, [1, tokens, width], and a bound → what it adds instead."""


def _clamp(written_BTD: Tensor, bound: float) -> Tensor:
    return written_BTD.clamp(-bound, bound)


def _at_first_token(change: Change) -> Change:
    def at_first(written_BTD: Tensor, bound: float) -> Tensor:
        return torch.cat([change(written_BTD[:, :1], bound), written_BTD[:, 1:]], 1)

    return at_first


CHANGES: Final[Mapping[str, Mapping[int, Change]]] = {
    "as it is": {},
    "block 11 alone clamped": {WRITER: _clamp},
    "blocks 28 and 29 alone clamped": dict.fromkeys(TAKERS, _clamp),
    "at the first token a tenth of what block 11's MLP adds": {
        WRITER: _at_first_token(lambda written, _: 0.1 * written)
    },
    "… a hundredth": {WRITER: _at_first_token(lambda written, _: 0.01 * written)},
    "… only its numbers above the bound": {
        WRITER: _at_first_token(lambda written, bound: written.where(written.abs() > bound, 0.0))
    },
    "… nothing": {WRITER: _at_first_token(lambda written, _: torch.zeros_like(written))},
}
"""What is changed → block → how what its MLP adds is changed."""


def look_closer(model: Model, prompts: Sequence[Any], bound: float) -> xr.Dataset:
    """Return the loss of every prompt under every change, [change, prompt], in nats a token.

    Args:
        model: one whose blocks are ``model.layers`` with an ``mlp`` each.
        bound: of the survey with bounded contributions.
    """
    ids = [prompt.ids for prompt in tokenized(model, prompts).items]
    losses = []
    for changes in CHANGES.values():
        with _changed(model, changes, bound):
            losses.append([_loss(model, tokens) for tokens in ids])
    counts = np.array([len(tokens) - 1 for tokens in ids])
    variables = {"loss": (("change", "prompt"), np.array(losses)), "n_averaged": (("prompt",), counts)}
    return xr.Dataset(variables, coords={"change": list(CHANGES)}, attrs={"bound": bound})


@contextmanager
def _changed(model: Model, changes: Mapping[int, Change], bound: float) -> Iterator[None]:
    blocks: Any = model.hf.get_submodule("model.layers")
    with ExitStack() as stack:
        for block, change in changes.items():
            hook = blocks[block].mlp.register_forward_hook(lambda _, __, out, change=change: change(out, bound))
            stack.callback(hook.remove)
        yield


def _loss(model: Model, ids: Sequence[int]) -> float:
    tokens_T = torch.tensor(ids, device=model.device)
    with torch.no_grad():
        logits_TV = model.hf(input_ids=tokens_T[None], use_cache=False).logits[0].float()
    return float(torch.nn.functional.cross_entropy(logits_TV[:-1], tokens_T[1:]))
