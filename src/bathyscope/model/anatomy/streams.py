"""Models with several residual streams: the state H of all streams is one vector to everything else.

Streams are folded into the width where a block is called. A folded block is a copy that shares its block's weights,
takes [rows, tokens, streams · width] and gives the same. The model's own forward still runs on its own form of the
state; ``FoldedStreams`` converts between the two. Forms (``forms``) are found by the shapes of a short forward:

- an axis of streams (hyper-connections, AltUp);
- streams one behind the other along the tokens (ProphetNet);
- one stream whose tokens are in front of the rows (XLNet);
- streams in the width already (gated residuals), which need nothing;

or are declared by the family: streams of earlier blocks as an argument of their own (attention residuals), and two
streams in two arguments (Reformer).

Some blocks also pass on what is no stream (router states, chosen positions): the second of what a block returns is an
argument of the next one. It goes through the dictionary in which blocks pass on keys and values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.calls import by_name, replaced_forwards
from bathyscope.model.anatomy.family import GUIDE, Family
from bathyscope.model.anatomy.forms import (
    AlongTokens,
    EarlierStreams,
    Form,
    PairedStreams,
    Single,
    StreamAxis,
    TokensFirst,
)
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.sharing import share

PASSED = "bathyscope_passed"
"""The argument through which folded blocks get the dictionary of what blocks pass on."""
ROLLING = "passed on by the block before"
"""The key of what each block passes to the next one alone."""
_WIDE = (3, 5)


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
            return self.form.give_all(number, forward(self.form.fold(number, arguments, stream), **arguments))

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
    model: nn.Module,
    family: Family,
    sources: tuple[nn.Module, ...],
    outputs: Sequence[Tensor],
    result: type[Any] = tuple,
) -> FoldedStreams | None:
    """Return the folded blocks of a model with several streams; None where its blocks take one stream and nothing else.

    Args:
        outputs: what each block gives in a short forward of 1 row of 2 tokens.
        result: the type of all that a block returns.

    Raises:
        ModelError: the streams change their number or their order from block to block, or no axis counts them.
    """
    form: Form = Single()
    if family.earlier_streams is not None:
        argument, marks = family.earlier_streams
        before = tuple(number for number, block in enumerate(sources) if getattr(block, marks))
        form = EarlierStreams(argument, before)
    elif family.paired is not None:
        (first, first_field), (second, second_field) = family.paired
        chunk = None if family.chunk is None else int(getattr(model.config, family.chunk))
        form = PairedStreams((first, second), (first_field, second_field), result, chunk, family.tokens)
    elif outputs[-1].ndim == 4:
        _require_one_shape(family, outputs)
        form = _find_axis(model, family, sources)
    elif outputs[-1].shape[:2] == (2, 1):
        form = TokensFirst()
    elif outputs[-1].shape[0] == 1 and outputs[-1].shape[1] % 2 == 0 and outputs[-1].shape[1] > 2:
        _require_one_shape(family, outputs)
        form = _find_along_tokens(model, family, sources)
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


def _find_along_tokens(model: nn.Module, family: Family, sources: Sequence[nn.Module]) -> AlongTokens:
    """Find how many streams are along the tokens: as many as states have vectors for each token, at two sizes."""
    rows, tokens = _WIDE
    small, wide = (first_state(model, family, sources[0], *size).shape for size in ((1, 2), _WIDE))
    count = small[1] // 2
    if tuple(wide[:2]) != (rows, count * tokens):
        raise ModelError(
            f"{family.name} cannot be measured: its blocks take {small[1]} vectors for 2 tokens and {wide[1]} for "
            f"{tokens}. What stands at a place of their states is not that of a token."
        )
    return AlongTokens(count)


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
        if passed is not None and isinstance(out, tuple | list) and out[1] is not None:
            passed[ROLLING] = (_with_earlier_tokens(out[1], earlier),)
        return form.join_all(number, out, state)

    update_wrapper(forward, run)
    forward.__dict__["__signature__"] = taken
    block.__dict__["forward"] = forward
    return block


def _with_earlier_tokens(value: Tensor, earlier: Tensor | None) -> Tensor:
    """Return what a tail passes on with what is in front of it, as long as what it was given."""
    if earlier is None or earlier.shape[1] == value.shape[1]:
        return value
    return torch.cat([earlier[:, : -value.shape[1]], value], dim=1)
