"""Models with several residual streams: the state H of all streams is one vector to everything else.

Streams are folded into the width where a block is called. A folded block is a copy that shares its block's weights,
takes [rows, tokens, streams · width] and gives the same. The model's own forward still runs on its own form of the
state; ``FoldedStreams`` converts between the two. Three forms are known:

- an axis of streams (hyper-connections, AltUp), found by the shapes of a short forward;
- streams in the width already (gated residuals), which need nothing;
- the streams of earlier blocks as an argument of their own (attention residuals), which the family declares.

Some blocks also pass on what is no stream (router states, chosen positions): the second of what a block returns is an
argument of the next one. It goes through the dictionary in which blocks pass on keys and values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.calls import by_name, replaced_forwards
from bathyscope.model.anatomy.family import GUIDE, Family
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.sharing import share

PASSED = "bathyscope_passed"
"""The argument through which folded blocks get the dictionary of what blocks pass on."""
ROLLING = "passed on by the block before"
"""The key of what each block passes to the next one alone."""
_WIDE = (3, 5)


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
        # what stands in front of the next block is stored by the model's own forward
        place = 1 + self.before.index(block + 1) if block + 1 in self.before else 0
        return streams[..., place, :]

    def join(self, block: int, output: Tensor, state: Tensor) -> Tensor:
        streams = state.unflatten(-1, (self.count, -1)).unbind(-2)
        places = [output if place > block else streams[1 + number] for number, place in enumerate(self.before)]
        return torch.cat([output, *places], dim=-1)


@dataclass(frozen=True)
class FoldedStreams:
    """The folded blocks of a model, and how its own forward calls them.

    Args:
        sources: the model's own blocks.
        blocks: folded copies.
        form: of the model's own states.
        passes: argument of a block that takes the second of what the block before returned; None = none.
    """

    sources: tuple[nn.Module, ...]
    blocks: tuple[nn.Module, ...]
    form: Form
    passes: str | None = None

    def require_exchangeable(self) -> None:
        """Refuse to change the order of blocks inside of the model's own forward, where that one stores streams.

        Raises:
            ModelError: it does.
        """
        if isinstance(self.form, EarlierStreams):
            raise ModelError(
                "This model's own forward stores streams between its blocks, so they cannot change places in it. The "
                "measures drop, swap, repeat and pairs run it in other orders."
            )

    def entering(self, native: Tensor) -> Tensor:
        """Return the folded state of what the model's own forward gives to the first block."""
        return self.form.fold(0, {"": native}, "")

    @contextmanager
    def replaced(self, forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
        """Run the given function on folded states in the place of each block's own forward."""
        converted = [self._converted(number, forward) for number, forward in enumerate(forwards)]
        with replaced_forwards(self.sources, converted):
            yield

    def _converted(self, number: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        source = self.sources[number]
        signature = inspect.signature(source.forward)
        stream = next(iter(signature.parameters))

        def run(*args: Any, **kwargs: Any) -> Any:
            arguments = by_name(signature.bind(*args, **kwargs))
            out = forward(self.form.fold(number, arguments, stream), **arguments)
            if isinstance(out, tuple | list):
                return type(out)([self.form.give(number, out[0]), *out[1:]])
            return self.form.give(number, out)

        return update_wrapper(run, source.forward)


def additive_writes(family: Family, form: Form | None, n_blocks: int, n_streams: int) -> tuple[tuple[bool, ...], ...]:
    """Return by block and stream whether what a block changes in the stream is what it adds to it.

    Where streams are stored in front of some blocks, the stream begins again in these, and stored ones stay the same.
    """
    if not family.adds_to_streams:
        return ((False,) * n_streams,) * n_blocks
    if not isinstance(form, EarlierStreams):
        return ((True,) * n_streams,) * n_blocks
    rows = []
    for block in range(n_blocks):
        goes_on = block not in form.before
        rows.append((goes_on, *(goes_on or place <= block for place in form.before)))
    return tuple(rows)


def find_streams(
    model: nn.Module, family: Family, sources: tuple[nn.Module, ...], outputs: Sequence[Tensor]
) -> FoldedStreams | None:
    """Return the folded blocks of a model with several streams; None where its blocks take one stream and nothing else.

    Args:
        outputs: what each block gives in a short forward of 1 row of 2 tokens.

    Raises:
        ModelError: the streams change their number or their order from block to block, or no axis counts them.
    """
    form: Form = Single()
    if family.earlier_streams is not None:
        argument, marks = family.earlier_streams
        before = tuple(number for number, block in enumerate(sources) if getattr(block, marks))
        form = EarlierStreams(argument, before)
    elif outputs[-1].ndim == 4:
        _require_one_shape(family, outputs)
        form = _find_axis(model, family, sources)
    elif family.passes is None:
        return None
    blocks = tuple(_fold(source, number, form, family.passes) for number, source in enumerate(sources))
    return FoldedStreams(sources, blocks, form, family.passes)


def _require_one_shape(family: Family, outputs: Sequence[Tensor]) -> None:
    shapes = [tuple(output.shape) for output in outputs]
    other = next((number for number, shape in enumerate(shapes) if shape != shapes[-1]), None)
    if other is not None:
        raise ModelError(
            f"{family.name} cannot be measured: block {other} gives a state of shape {shapes[other]} and the last one "
            f"{shapes[-1]}. A schedule needs the same number of streams behind every block."
        )


class _Met(Exception):  # noqa: N818 — no error: it ends a forward at the first block
    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


def _find_axis(model: nn.Module, family: Family, sources: Sequence[nn.Module]) -> StreamAxis:
    """Find by two shapes of the first block's input which axis counts streams: it is neither rows nor tokens."""
    small, wide = (first_state(model, family, sources[0], *size).shape for size in ((1, 2), _WIDE))
    rows = [axis for axis in range(3) if (small[axis], wide[axis]) == (1, _WIDE[0])]
    tokens = [axis for axis in range(3) if (small[axis], wide[axis]) == (2, _WIDE[1])]
    still = [axis for axis in range(3) if small[axis] == wide[axis]]
    if not (len(small) == 4 and len(rows) == len(tokens) == len(still) == 1 and rows < tokens):
        raise ModelError(
            f"{family.name}: its blocks take a state of shape {tuple(small)} for 1 row of 2 tokens, in which no axis "
            f"counts streams. Fold the streams into the width with an adapter: {GUIDE}."
        )
    return StreamAxis(small[still[0]], still[0])


def first_state(model: nn.Module, family: Family, block: nn.Module, rows: int = 1, tokens: int = 2) -> Tensor:
    """Return what the first block is given, in the model's own form; no block runs."""
    signature = inspect.signature(block.forward)

    def meet(*args: Any, **kwargs: Any) -> Any:
        raise _Met(next(iter(signature.bind(*args, **kwargs).arguments.values())))

    try:
        with replaced_forwards([block], [update_wrapper(meet, block.forward)]):
            plain_forward(model, probe_ids(model, rows, tokens), family.name)
    except _Met as met:
        return met.state
    raise AssertionError("the first block was called before")


def _fold(source: nn.Module, number: int, form: Form, passes: str | None) -> nn.Module:
    """Return a copy of a block that takes and gives folded states."""
    block = share(source)
    run: Callable[..., Any] = block.forward
    signature = inspect.signature(run)
    stream = next(iter(signature.parameters))
    # what is part of the state is no argument of the copy
    inside = form.unfold(number, torch.zeros(1, 1, form.count), stream).keys() - {stream}
    taken = signature.replace(parameters=[p for name, p in signature.parameters.items() if name not in inside])

    def forward(*args: Any, **kwargs: Any) -> Any:
        passed: dict[Any, tuple[Tensor, ...]] | None = kwargs.pop(PASSED, None)
        named = by_name(taken.bind(*args, **kwargs))
        state: Tensor = named.pop(stream)
        named.update(form.unfold(number, state, stream))
        # absent in front of the first block; without a dictionary the model's own forward passes it
        earlier = passed[ROLLING][0] if passed is not None and ROLLING in passed else None
        if passes is not None and passed is not None:
            named[passes] = None if earlier is None else earlier[:, -state.shape[1] :]
        out = run(**named)
        if not isinstance(out, tuple | list):
            return form.join(number, out, state)
        if passed is not None and out[1] is not None:
            passed[ROLLING] = (_with_earlier_tokens(out[1], earlier),)
        return type(out)([form.join(number, out[0], state), *out[1:]])

    update_wrapper(forward, run)
    forward.__dict__["__signature__"] = taken
    block.__dict__["forward"] = forward
    return block


def _with_earlier_tokens(value: Tensor, earlier: Tensor | None) -> Tensor:
    """Return what a tail passes on with what stands in front of it, as long as what it was given."""
    if earlier is None or earlier.shape[1] == value.shape[1]:
        return value
    return torch.cat([earlier[:, : -value.shape[1]], value], dim=1)
