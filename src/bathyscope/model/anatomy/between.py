"""What a looped model computes between two calls of its blocks: run by the model's own forward, never rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Calls(Protocol):
    """The calls of blocks in one forward."""

    def replaced(self, forwards: Sequence[Callable[..., Any]]) -> AbstractContextManager[None]:
        """Run the given function at each call instead of the block."""
        ...


class _Reached(Exception):  # noqa: N818 — no error: it ends a forward at the call whose input is asked for
    def __init__(self, stream: Tensor) -> None:
        super().__init__()
        self.stream = stream


@dataclass(frozen=True)
class RunOutputs:
    """Where the state in front of a step has what each earlier step gave.

    Args:
        step: which step.
        width: of the stream.
        slots: steps whose outputs are folded behind the stream, in order.
        returns: by step None where it returns a tensor, else the length of the tuple.
    """

    step: int
    width: int
    slots: tuple[int, ...]
    returns: tuple[int | None, ...]

    def active(self, state: Tensor) -> Tensor:
        """Return the stream: what the step before this one gave."""
        return state[..., : self.width] if self.slots else state

    def is_state(self, value: object) -> bool:
        """Whether an argument is a state, by its shape."""
        full = self.width * (1 + len(self.slots))
        return isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point() and value.shape[-1] == full

    def read(self, state: Tensor) -> list[Tensor]:
        """Return what each earlier step gave; the stream stands for outputs that nothing depends on any more."""
        outputs = [self.active(state)] * self.step
        for place, step in enumerate(self.slots, start=1):
            if step < self.step:
                outputs[step] = state[..., place * self.width : (place + 1) * self.width]
        return outputs

    def joined(self, out: Tensor, state: Tensor) -> Tensor:
        """Return the state behind this step: slots of steps that are yet to run, or of this one, follow the stream."""
        if not self.slots:
            return out
        states = state.split(self.width, dim=-1)
        followed = [out if step >= self.step else states[place] for place, step in enumerate(self.slots, start=1)]
        return torch.cat([out, *followed], dim=-1)


def as_returned(stream: Tensor, returns: int | None) -> Any:
    """Return a stream in the form in which a block returns it."""
    return stream if returns is None else (stream, *[None] * (returns - 1))


class Between(nn.Module):
    """Computes the input of a step from a state, by the model's own forward up to that step's call.

    Blocks before it are not run: each call gives what the state holds of that step.
    """

    def __init__(self, model: nn.Module, calls: Calls, outputs: RunOutputs) -> None:
        super().__init__()
        # no submodule, or the model would be part of its own block
        self.__dict__["_run_model"] = getattr(model, "base_model", model)
        self._calls, self._outputs = calls, outputs

    def forward(self, state: Tensor, ids: Tensor) -> Tensor:
        """Return the input of the step's block, [rows, tokens, width].

        Args:
            state: [rows, tokens, states × width], of the last tokens of ``ids``.
            ids: [rows, all tokens].
        """
        tokens = state.shape[1]
        # a tail has the last tokens alone; positions count from the first
        full = nn.functional.pad(state, (0, 0, ids.shape[1] - tokens, 0))
        outputs = self._outputs.read(full)

        def give(number: int) -> Callable[..., Any]:
            return lambda *_, **__: as_returned(outputs[number], self._outputs.returns[number])

        def reach(*args: Any, **kwargs: Any) -> Any:
            raise _Reached(next(v for v in (*args, *kwargs.values()) if _is_stream(v, full)))

        stream: Tensor | None = None
        try:
            with self._calls.replaced([*map(give, range(self._outputs.step)), reach]):
                self.__dict__["_run_model"](input_ids=ids, use_cache=False)
        except _Reached as reached:
            stream = reached.stream
        assert stream is not None
        return stream[:, -tokens:]


def _is_stream(value: object, like: Tensor) -> bool:
    return (
        isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point() and value.shape[1] == like.shape[1]
    )
