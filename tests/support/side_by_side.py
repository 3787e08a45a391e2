"""Blocks in parallel, as hooks of plain PyTorch on the model's own forward; no code of the package is used.

The first block of a group runs as it is. The input of the others is exchanged for the first one's, and what the last
one gives becomes the common input and the sum of what all have added. The model's own loop, its cache and its masks are
left as they are, so this serves generation too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from support import naive
from torch import Tensor, nn
from transformers import PreTrainedModel


class _Group:
    """What the blocks of one group have read and given so far, in one forward."""

    stream: Tensor
    added: list[Tensor]


@contextmanager
def in_parallel(model: PreTrainedModel, groups: Sequence[Sequence[int]]) -> Iterator[PreTrainedModel]:
    """Let the blocks of each group, which are neighbours, read the same stream until the context ends."""
    blocks = naive.blocks_of(model)
    with ExitStack() as stack:
        for members in groups:
            group = _Group()
            for place, index in enumerate(members):
                for handle in _hook(blocks[index], group, first=place == 0, last=place == len(members) - 1):
                    stack.callback(handle.remove)
        yield model


def _hook(block: nn.Module, group: _Group, *, first: bool, last: bool) -> Iterator[Any]:
    def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = next((name for name in ("hidden_states", "x") if name in kwargs), None)
        if first:
            group.stream, group.added = (args[0] if name is None else kwargs[name]).clone(), []
        if name is None:
            return (group.stream.clone(), *args[1:]), kwargs
        return args, {**kwargs, name: group.stream.clone()}

    def leave(_: nn.Module, args: tuple[Any, ...], out: Any) -> Any:
        given = out[0] if isinstance(out, tuple | list) else out
        group.added.append(given - group.stream)
        if not last:
            return out
        merged = group.stream + torch.stack(group.added).sum(0)
        return (merged, *out[1:]) if isinstance(out, tuple | list) else merged

    yield block.register_forward_pre_hook(enter, with_kwargs=True)
    yield block.register_forward_hook(leave)


@contextmanager
def rewriting(block: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Let a block give what ``change`` makes of its input and its output, [1, tokens, width] each."""

    def leave(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        name = next((name for name in ("hidden_states", "x") if name in kwargs), None)
        changed = change(args[0] if name is None else kwargs[name], out[0] if isinstance(out, tuple | list) else out)
        return (changed, *out[1:]) if isinstance(out, tuple | list) else changed

    handle = block.register_forward_hook(leave, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
