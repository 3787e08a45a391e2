"""Looped models: every call of a block in one forward is a step, and a step is what everything else calls a block.

A step is a copy of its block that shares the weights. The model's own forward hands each call to its step, so that a
hook on a step sees one run. What the forward computes between two calls (a norm, an injection, the sum of two states)
belongs to the step behind it, and is computed by that forward itself (``between``).

A later call may need what an earlier step gave, and not only what the last one gave. Such outputs are folded into the
width, behind the stream: a *slot* follows the stream until its step has run, and stays as it is from then on. So a
dropped step always hands on what the step before it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.between import Between, RunOutputs
from bathyscope.model.anatomy.calls import replaced_forwards
from bathyscope.model.anatomy.sharing import share

IDS = "bathyscope_ids"
"""The recorded argument through which a step learns the token ids of its rows, [rows, tokens]."""


@dataclass(frozen=True)
class CallOrder:
    """Which of the model's blocks each call of a forward runs.

    Args:
        sources: the blocks, each once.
        order: by call the index of its block in ``sources``.
    """

    sources: tuple[nn.Module, ...]
    order: tuple[int, ...]

    @contextmanager
    def replaced(self, forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
        """Run the given function at each call instead of the block's own forward; each forward begins again.

        Raises:
            ModelError: a forward calls the blocks in another order, or not all of them.
        """
        place = 0

        def dispatcher(source: int) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                nonlocal place
                if self.order[place] != source:
                    raise ModelError(_OTHER_ORDER)
                step, place = place, (place + 1) % len(self.order)
                return forwards[step](*args, **kwargs)

            return forward

        wrapped = [update_wrapper(dispatcher(index), block.forward) for index, block in enumerate(self.sources)]
        with replaced_forwards(self.sources, wrapped):
            yield
        # an exception passes by; a forward that ended must have made all calls
        if place:
            raise ModelError(_OTHER_ORDER)


_OTHER_ORDER = (
    "This model loops, and the number or the order of its blocks' calls differs between two inputs, so that tokens of "
    "one prompt have no common depth. Set it to run all loops."
)


@dataclass(frozen=True)
class Loops:
    """The steps of a looped model.

    Args:
        calls: the model's own blocks, and which of them each step runs.
        steps: copies of the blocks that share their weights, one for each call.
        width: of the stream that a block takes.
        slots: steps whose outputs later calls need, in the order in which they are folded behind the stream.
        between: steps with something between them and the step before.
    """

    calls: CallOrder
    steps: tuple[nn.Module, ...]
    width: int
    slots: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    needs_ids: frozenset[int] = field(default=frozenset())

    @property
    def n_states(self) -> int:
        """How many states a step hands on: the stream, and what later steps need of earlier ones."""
        return 1 + len(self.slots)

    @property
    def block(self) -> tuple[int, ...]:
        """By step the index of its block in the model's list."""
        return self.calls.order

    def active(self, state: Tensor) -> Tensor:
        """Return the stream of a state: what the last step gave, without what is folded behind it."""
        return state[..., : self.width]

    def fold(self, stream: Tensor) -> Tensor:
        """Return the state in front of the first step, all of whose slots follow the stream."""
        return torch.cat([stream] * self.n_states, dim=-1) if self.slots else stream

    def handed_over(self) -> Any:
        """Hand each call of the model's own forward to its step, until the context ends."""
        return self.calls.replaced(self.steps)


def make_loops(
    model: nn.Module, calls: CallOrder, returns: Sequence[int | None], width: int, dependence: Dependence
) -> Loops:
    """Make the steps of a model, given what each of its calls depends on.

    Args:
        returns: by call None where the block returns a tensor, else the length of the tuple.
    """
    n_steps = len(calls.order)
    slots = tuple(sorted({j for k in range(n_steps) for j in dependence.earlier[k] if j < k - 1}))
    between = tuple(k for k in range(1, n_steps) if not dependence.plain[k])
    folded = frozenset(range(n_steps)) if slots else frozenset(between)
    steps = []
    for number, source in enumerate(calls.order):
        step = share(calls.sources[source])
        if number in folded:
            outputs = RunOutputs(number, width, slots, tuple(returns))
            glue = Between(model, calls, outputs) if number in between else None
            _fold_forward(step, glue, outputs)
        steps.append(step)
    return Loops(calls, tuple(steps), width, slots, between, folded)


def _fold_forward(step: nn.Module, between: Between | None, outputs: RunOutputs) -> None:
    """Let a step take and give whole states where it is replayed, and what its block does in the own forward."""
    run: Callable[..., Any] = step.forward
    if between is not None:
        step.__dict__["_modules"] = {**step._modules, "between": between}

    def forward(*args: Any, **kwargs: Any) -> Any:
        ids = kwargs.pop(IDS, None)
        if ids is None:
            return run(*args, **kwargs)
        name = None if args else next(key for key, value in kwargs.items() if outputs.is_state(value))
        state: Tensor = args[0] if name is None else kwargs.pop(name)
        stream = outputs.active(state) if between is None else between(state, ids)
        out = run(stream, *args[1:], **kwargs) if name is None else run(**{name: stream}, **kwargs)
        if isinstance(out, tuple | list):
            return type(out)([outputs.joined(out[0], state), *out[1:]])
        return outputs.joined(out, state)

    step.__dict__["forward"] = update_wrapper(forward, run)


@dataclass(frozen=True)
class Dependence:
    """What the input of each call is made of.

    Args:
        plain: by call, whether its input is what the call before it gave; of the first, whether it is the same twice.
        earlier: by call the steps whose outputs its input depends on.
    """

    plain: tuple[bool, ...]
    earlier: tuple[frozenset[int], ...]
