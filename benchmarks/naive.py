"""The published way, lean: one full forward per intervention through hooks, batch 1, logits kept per run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bathyscope.model import Model


@contextmanager
def _recorded(blocks: Sequence[nn.Module], skipped: int | None, first: int, last: int | None) -> Iterator[list[Tensor]]:
    """Each block's contribution; where a block is skipped, its output is replaced at tokens first … last−1."""
    changes: list[Tensor] = []

    def note(index: int) -> object:
        def hook(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            before = args[0]
            if index == skipped:
                output = output.clone()
                output[:, first:last] = before[:, first:last]
            changes.append(output - before)
            return output

        return hook

    handles = [block.register_forward_hook(note(i)) for i, block in enumerate(blocks)]  # type: ignore[arg-type]
    try:
        yield changes
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def skip_effects(model: Model, ids: Sequence[int], positions: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """E and O (maxima over tokens) of all and of future effects, a forward for every block and position."""
    blocks = model.anatomy.blocks
    tokens = torch.tensor([list(ids)], device=model.device)
    with _recorded(blocks, None, 0, 0) as base:
        probabilities = model.hf(input_ids=tokens, use_cache=False).logits[0].double().softmax(-1)
    sizes = [torch.linalg.vector_norm(c[0], dim=-1).clamp_min(1e-6) for c in base]
    n = len(blocks)
    effect_all, effect_future = torch.zeros(n, n), torch.zeros(n, n)
    output_all, output_future = torch.zeros(n), torch.zeros(n)
    for s in range(n):
        for start in (None, *positions):
            with _recorded(blocks, s, 1, start) as changed:
                new = model.hf(input_ids=tokens, use_cache=False).logits[0].double().softmax(-1)
            own = slice(start, None)
            effect = torch.stack(
                [
                    (torch.linalg.vector_norm((a - b)[0, own], dim=-1) / size[own]).max()
                    for a, b, size in zip(changed, base, sizes)
                ]
            )
            output = torch.linalg.vector_norm((new - probabilities)[own], dim=-1).max()
            if start is None:
                effect_all[s], output_all[s] = effect, output
            else:
                effect_future[s] = torch.maximum(effect_future[s], effect)
                output_future[s] = torch.maximum(output_future[s], output)
    return effect_all, output_all, effect_future, output_future


@contextmanager
def _given(blocks: Sequence[nn.Module], inputs: Sequence[Tensor | None]) -> Iterator[list[Tensor]]:
    """Each block's contribution when it is given another input than the one that reaches it (None = that one)."""
    changes: list[Tensor] = []

    def replace(index: int) -> object:
        def hook(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            own = inputs[index]
            return None if own is None else (own, *args[1:])

        return hook

    def note(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        changes.append(output - args[0])

    handles = [block.register_forward_pre_hook(replace(i)) for i, block in enumerate(blocks)]  # type: ignore[arg-type]
    handles += [block.register_forward_hook(note) for block in blocks]  # type: ignore[arg-type]
    try:
        yield changes
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def direct_effects(model: Model, ids: Sequence[int], positions: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Direct E (maxima over tokens) of all and of future effects, a forward of the blocks for every s and position."""
    blocks = model.anatomy.blocks
    tokens = torch.tensor([list(ids)], device=model.device)
    with _recorded(blocks, None, 0, 0) as base:
        model.hf.model(input_ids=tokens, use_cache=False)
    stream = [model.hf.model.embed_tokens(tokens)]
    for change in base:
        stream.append(stream[-1] + change)
    sizes = [torch.linalg.vector_norm(c[0], dim=-1).clamp_min(1e-6) for c in base]
    n = len(blocks)
    effect_all, effect_future = torch.zeros(n, n), torch.zeros(n, n)
    for s in range(n):
        for start in (None, *positions):
            inputs: list[Tensor | None] = [None] * n
            for later in range(s + 1, n):
                own_input = stream[later].clone()
                own_input[:, 1:start] -= base[s][:, 1:start]
                inputs[later] = own_input
            with _given(blocks, inputs) as changed:
                model.hf.model(input_ids=tokens, use_cache=False)
            own = slice(start, None)
            effect = torch.stack(
                [
                    (torch.linalg.vector_norm((a - b)[0, own], dim=-1) / size[own]).max()
                    for a, b, size in zip(changed, base, sizes)
                ]
            )
            effect[: s + 1] = 0
            if start is None:
                effect_all[s] = effect
            else:
                effect_future[s] = torch.maximum(effect_future[s], effect)
    return effect_all, effect_future


@contextmanager
def _ordered(model: Model, order: Sequence[int]) -> Iterator[None]:
    """The model runs its blocks in another order."""
    owner = model.hf.model
    blocks, count = owner.layers, model.hf.config.num_hidden_layers
    owner.layers = nn.ModuleList([blocks[i] for i in order])
    model.hf.config.num_hidden_layers = len(order)
    try:
        yield
    finally:
        owner.layers = blocks
        model.hf.config.num_hidden_layers = count


def _statistics(normal: Tensor, changed: Tensor, targets: Tensor) -> Tensor:
    """KL, agreement, entropy (bits) and loss, means over the tokens that have a next one."""
    p, q = normal.double().log_softmax(-1), changed.double().log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1).mean()
    agreement = (normal.argmax(-1) == changed.argmax(-1)).double().mean()
    entropy = -(q.exp() * q).sum(-1).mean() / torch.log(torch.tensor(2.0))
    loss = -q.gather(-1, targets[:, None]).mean()
    return torch.stack([kl, agreement, entropy, loss])


@torch.no_grad()
def schedules(model: Model, ids: Sequence[int], orders: Sequence[Sequence[int]], baseline_each: bool) -> Tensor:
    """Statistics of every schedule, a forward each; ``baseline_each`` repeats the normal forward every time."""
    tokens = torch.tensor([list(ids)], device=model.device)
    targets = tokens[0, 1:]
    normal = model.hf(input_ids=tokens, use_cache=False).logits[0, :-1]
    found = []
    for order in orders:
        if baseline_each:
            normal = model.hf(input_ids=tokens, use_cache=False).logits[0, :-1]
        with _ordered(model, order):
            changed = model.hf(input_ids=tokens, use_cache=False).logits[0, :-1]
        found.append(_statistics(normal, changed, targets))
    return torch.stack(found)
