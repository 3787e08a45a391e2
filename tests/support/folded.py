"""Models with several streams whose blocks take them folded, for references that know one stream only.

A copy runs the untouched model's own forward. Each of its ``runs`` is a module of its own that takes and gives all
streams one behind the other, unfolds them for the block, and can be hooked like the block of an ordinary model. Nothing
of the engine is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from support import naive
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.model.anatomy.family import Family


class Run(nn.Module):
    """A block that takes and gives folded states.

    Args:
        compute: (folded state, the block's other arguments) → what the block returns, its state folded.
        source: the block, whose arguments the run takes.
    """

    def __init__(self, source: nn.Module, compute: Callable[..., Any]) -> None:
        super().__init__()
        forward = source.forward
        first = next(iter(inspect.signature(forward).parameters))

        @wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            given = inspect.signature(forward).bind(*args, **kwargs)
            state = given.arguments.pop(first)
            return compute(state, given)

        self.__dict__["forward"] = run
        # what earlier streams a block stores is part of its folded state
        self.__dict__["is_block_boundary"] = False


class FoldedCopy(nn.Module):
    """The own forward of a model of several streams, through runs on folded states.

    Args:
        hf: a model of the zoo, built for this copy alone.
        axis: where its states count streams; None = they are stored in front of earlier blocks (Inkling 2).
    """

    def __init__(self, hf: PreTrainedModel, axis: int | None) -> None:
        super().__init__()
        blocks = list(naive.blocks_of(hf))
        self.hf, self.config, self.dtype = hf, hf.config, hf.dtype
        self.own_family = Family("folded", ("folded_test",), blocks="runs", attention=None, mlp=None)
        self.runs = nn.ModuleList(_store(hf, blocks) if axis is None else [_along(block, axis) for block in blocks])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.hf(*args, **kwargs)


def _along(block: nn.Module, axis: int) -> Run:
    """A run of a block whose states are [rows, tokens, streams, width] or [streams, rows, tokens, width]."""
    own = block.forward
    first = next(iter(inspect.signature(own).parameters))
    count = 0

    def fold(native: Tensor) -> Tensor:
        return torch.cat(native.unbind(axis), dim=-1)

    def unfold(state: Tensor) -> Tensor:
        return torch.stack(state.chunk(count, dim=-1), dim=axis)

    def compute(state: Tensor, given: inspect.BoundArguments) -> Any:
        given.arguments = {first: unfold(state), **given.arguments}
        return _with_state(own(*given.args, **given.kwargs), fold)

    run = Run(block, compute)

    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        given = inspect.signature(own).bind(*args, **kwargs)
        count = given.arguments[first].shape[axis]
        given.arguments[first] = fold(given.arguments[first])
        return _with_state(run(*given.args, **given.kwargs), unfold)

    block.forward = wraps(own)(forward)
    return run


def _store(hf: Any, blocks: list[nn.Module]) -> list[Run]:
    """Runs of blocks that are given the streams in front of earlier blocks; a place follows until its block has run."""
    places = [index for index, block in enumerate(blocks) if block.is_block_boundary]
    # the state behind the run before, which the own forward holds in a form of its own
    latest: list[Tensor] = []

    def make(index: int, block: nn.Module) -> Run:
        own = block.forward
        stored = sum(place < index for place in places)

        def compute(state: Tensor, given: inspect.BoundArguments) -> Tensor:
            active, *earlier = state.chunk(1 + len(places), dim=-1)
            given.arguments["block_states"] = _stacked(earlier[:stored], active)
            given.arguments = {"hidden_states": active, **given.arguments}
            out = own(*given.args, **given.kwargs)
            return torch.cat([out, *(out if place > index else old for place, old in zip(places, earlier))], dim=-1)

        run = Run(block, compute)

        def forward(*args: Any, **kwargs: Any) -> Tensor:
            given = inspect.signature(own).bind(*args, **kwargs)
            if index == 0:
                latest[:] = [torch.cat([given.arguments["hidden_states"]] * (1 + len(places)), dim=-1)]
            given.arguments["hidden_states"] = latest[0]
            latest[0] = run(*given.args, **given.kwargs)
            return latest[0].chunk(1 + len(places), dim=-1)[0]

        block.forward = wraps(own)(forward)
        return run

    read = hf.model.final_input.forward

    def read_folded(block_states: Tensor, hidden_states: Tensor) -> Any:
        active, *earlier = latest[0].chunk(1 + len(places), dim=-1)
        return read(_stacked(earlier, active), active)

    hf.model.final_input.forward = read_folded
    return [make(index, block) for index, block in enumerate(blocks)]


def _stacked(streams: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(streams, dim=-2) if streams else like.unsqueeze(-2)[:, :, :0]


def _with_state(output: Any, convert: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(output, Tensor):
        return convert(output)
    return type(output)([convert(output[0]), *output[1:]])
