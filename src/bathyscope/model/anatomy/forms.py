"""Forms in which a model's own forward holds a state of several streams, and how a folded block holds it.

A folded block takes and gives [rows, tokens, streams · width]. A form converts its states, and all that its block
returns, to those of the model's own block and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Form(Protocol):
    """How the model's own forward holds a state, and how a folded block does."""

    count: int

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        """Take the state out of a call's arguments, [rows, tokens, count · width]."""
        ...

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        """Return the arguments that hold this state."""
        ...

    def give(self, block: int, state: Tensor) -> Tensor:
        """Return what the block hands to the model's own forward where this is the state behind it."""
        ...

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        """Return the state behind a block that was given ``state``, from what it returned."""
        ...

    def join_all(self, block: int, output: Any, state: Tensor) -> Any:
        """Return what a folded block returns, from all that the model's own block returned."""
        if not isinstance(output, tuple | list):
            return self.join(block, output, state)
        return type(output)([self.join(block, output[0], state), *output[1:]])

    def give_all(self, block: int, output: Any) -> Any:
        """Return what the model's own block returns, from all that a folded one returned."""
        if not isinstance(output, tuple | list):
            return self.give(block, output)
        return type(output)([self.give(block, output[0]), *output[1:]])


@dataclass(frozen=True)
class Single(Form):
    """One stream in the width."""

    count: int = 1

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        state: Tensor = arguments.pop(stream)
        return state

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        return {stream: state}

    def give(self, block: int, state: Tensor) -> Tensor:
        return state

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        return output


@dataclass(frozen=True)
class TokensFirst(Single):
    """One stream whose tokens are in front of its rows, [tokens, rows, width]."""

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        state: Tensor = arguments.pop(stream)
        return state.transpose(0, 1)

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        return {stream: self.give(block, state)}

    def give(self, block: int, state: Tensor) -> Tensor:
        return state.transpose(0, 1).contiguous()

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        return output.transpose(0, 1)


@dataclass(frozen=True)
class StreamAxis(Form):
    """Streams along an axis of their own.

    Args:
        count: how many streams there are.
        axis: where they are; 2 in [rows, tokens, streams, width], 0 in [streams, rows, tokens, width].
    """

    count: int
    axis: int

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        return self.flat(arguments.pop(stream))

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        return {stream: self.give(block, state)}

    def give(self, block: int, state: Tensor) -> Tensor:
        return state.unflatten(-1, (self.count, -1)).movedim(2, self.axis).contiguous()

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        return self.flat(output)

    def flat(self, native: Tensor) -> Tensor:
        """Return a state of the model's own form as [rows, tokens, streams · width]."""
        return native.movedim(self.axis, 2).flatten(2)


@dataclass(frozen=True)
class AlongTokens(Form):
    """Streams one behind the other along the axis of tokens, [rows, streams · tokens, width]."""

    count: int

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        return self.flat(arguments.pop(stream))

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        return {stream: self.give(block, state)}

    def give(self, block: int, state: Tensor) -> Tensor:
        return state.unflatten(-1, (self.count, -1)).transpose(1, 2).flatten(1, 2)

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        return self.flat(output)

    def flat(self, native: Tensor) -> Tensor:
        """Return a state of the model's own form as [rows, tokens, streams · width]."""
        return native.unflatten(1, (self.count, -1)).transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class PairedStreams(Form):
    """Two streams that a block takes as two arguments and gives as two fields of its result.

    The model's own forward pads longer prompts at their end, so that their tokens fill whole chunks; so does this form.
    Blocks of causal models make nothing of what follows a token, be it padding or not.

    Args:
        arguments: names of the arguments, in the order of the streams.
        fields: names of the fields, in this order.
        result: the named tuple that a block returns.
        chunk: how many tokens a chunk has; None = any number of tokens is right.
        tokens: argument that says how many tokens there are without the padding; None = there is no padding.
        mask: name of the argument that hides the padding from all tokens, which needs no hiding.
    """

    arguments: tuple[str, str]
    fields: tuple[str, str]
    result: type[Any]
    chunk: int | None = None
    tokens: str | None = None
    mask: str = "attention_mask"
    count: int = 2

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        streams = [arguments.pop(name) for name in self.arguments]
        arguments.pop(self.mask, None)
        tokens = None if self.tokens is None else arguments[self.tokens]
        return torch.cat(streams, dim=-1)[:, :tokens]

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        return dict(zip(self.arguments, self._padded(state).chunk(2, dim=-1)))

    def give(self, block: int, state: Tensor) -> Tensor:
        return self._padded(state)

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        return output[:, : state.shape[1]]

    def join_all(self, block: int, output: Any, state: Tensor) -> Any:
        streams = torch.cat([getattr(output, name) for name in self.fields], dim=-1)
        others = [value for name, value in zip(output._fields, output) if name not in self.fields]
        return (self.join(block, streams, state), None, *others)

    def give_all(self, block: int, output: Any) -> Any:
        streams = dict(zip(self.fields, self.give(block, output[0]).chunk(2, dim=-1)))
        return self.result(**{name: streams.get(name) for name in self.result._fields})

    def _padded(self, state: Tensor) -> Tensor:
        tokens = state.shape[1]
        if self.chunk is None or tokens <= self.chunk:
            return state
        return nn.functional.pad(state, (0, 0, 0, -tokens % self.chunk))


@dataclass(frozen=True)
class EarlierStreams(Form):
    """One stream, and behind it those that stood in front of earlier blocks.

    Such a place follows the stream until its block has run, and stays as it is from then on.

    Args:
        argument: takes the earlier streams, [rows, tokens, streams, width].
        before: the blocks in front of which a stream is stored, in order.
    """

    argument: str
    before: tuple[int, ...]

    @property
    def count(self) -> int:  # type: ignore[override]
        """The stream and all that are stored."""
        return 1 + len(self.before)

    def embedded(self, state: Tensor) -> Tensor:
        """Return the stream in front of the first block, where that one is stored."""
        return state.unflatten(-1, (self.count, -1))[..., 1, :]

    def _stored(self, block: int) -> int:
        """How many streams are stored when a block is called."""
        return sum(place < block for place in self.before)

    def fold(self, block: int, arguments: dict[str, Any], stream: str) -> Tensor:
        active: Tensor = arguments.pop(stream)
        stored: Tensor = arguments.pop(self.argument)
        following = [active] * (len(self.before) - stored.shape[-2])
        return torch.cat([active, *stored.unbind(-2), *following], dim=-1)

    def unfold(self, block: int, state: Tensor, stream: str) -> dict[str, Any]:
        streams = state.unflatten(-1, (self.count, -1))
        return {stream: streams[..., 0, :], self.argument: streams[..., 1 : 1 + self._stored(block), :]}

    def give(self, block: int, state: Tensor) -> Tensor:
        streams = state.unflatten(-1, (self.count, -1))
        # what is in front of the next block is stored by the model's own forward
        place = 1 + self.before.index(block + 1) if block + 1 in self.before else 0
        return streams[..., place, :]

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        streams = state.unflatten(-1, (self.count, -1)).unbind(-2)
        places = [output if place > block else streams[1 + number] for number, place in enumerate(self.before)]
        return torch.cat([output, *places], dim=-1)
