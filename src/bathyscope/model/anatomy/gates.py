"""Learned exit gates of looped models: modules that say after each loop how likely a token should leave there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.between import as_returned
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.plain import probe_ids
from bathyscope.model.anatomy.sites import submodule


def has_gate(anatomy: Anatomy) -> bool:
    """Whether the family declares an exit gate, and the model loops."""
    return anatomy.family.exit_gate is not None and anatomy.loops is not None


def require_gate(anatomy: Anatomy) -> None:
    """Refuse a gate that cannot be read, by a forward of four tokens in which no block is run.

    Raises:
        ModelError: as ``read_gate``.
    """
    ids_BT = probe_ids(anatomy.model, 1, 4)
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    stream = torch.zeros(1, 4, anatomy.stream_width, dtype=anatomy.dtype or parameter.dtype, device=ids_BT.device)
    with evaluating(anatomy.model):
        read_gate(anatomy, ids_BT, [stream] * anatomy.n_blocks)


@torch.no_grad()
def read_gate(anatomy: Anatomy, ids_BT: Tensor, outputs: Sequence[Tensor]) -> tuple[list[int], Tensor]:
    """Read what the gate gives in the model's own forward, in which each step gives what it gave; no block is run.

    Args:
        ids_BT: token ids [batch, tokens].
        outputs: by step its stream [batch, tokens, width].

    Returns:
        The boundaries where it is read, and the probabilities of leaving there of tokens that are left, [reads, batch,
        tokens]: the sigmoid of what the gate gives.

    Raises:
        ModelError: no such module, one that is not called after every loop, or one that gives more than a number.
    """
    path = anatomy.family.exit_gate or ""
    gate = submodule(anatomy.model, path)
    name = f"{anatomy.family.name} ({type(anatomy.model).__name__})"
    if gate is None:
        raise ModelError(f"{name} has no module {path!r}. Name its exit gate: Family(..., exit_gate='PATH').")
    steps_done = 0
    probabilities: dict[int, Tensor] = {}

    def give(step: int) -> Callable[..., Any]:
        def forward(*_: Any, **__: Any) -> Any:
            nonlocal steps_done
            steps_done = step + 1
            return as_returned(outputs[step], anatomy.returns[step])

        return forward

    def note(call: Call) -> None:
        value: Tensor = call.value
        if value.numel() != ids_BT.numel():
            raise ModelError(
                f"{name}: its exit gate {path} gives {tuple(value.shape)} for {tuple(ids_BT.shape)} tokens. A gate "
                "gives one number for each token, whose sigmoid is the probability of leaving."
            )
        probabilities[steps_done] = value.reshape(ids_BT.shape).double().sigmoid()

    body = getattr(anatomy.model, "base_model", anatomy.model)
    with anatomy.replaced([give(step) for step in range(anatomy.n_blocks)]), called([(path, gate)], note):
        body(input_ids=ids_BT, use_cache=False)
    probabilities.pop(0, None)
    if len(probabilities) < 2:
        raise ModelError(
            f"{name}: its exit gate {path} is read at {len(probabilities)} boundaries, and two are needed."
        )
    boundaries = sorted(probabilities)
    return boundaries, torch.stack([probabilities[boundary] for boundary in boundaries])
