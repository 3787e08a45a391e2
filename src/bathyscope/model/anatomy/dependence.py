"""What each call of a looped model's blocks depends on, found by giving made-up outputs to its own forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.arguments import Path, walk
from bathyscope.model.anatomy.between import as_returned
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.loops import CallOrder, Dependence
from bathyscope.model.anatomy.plain import home_of, logits_of, plain_forward, probe_ids, vocabulary
from bathyscope.model.anatomy.recording import BlockArguments, stub

MOST_STATES = 8
"""States that a step may hand on: the stream, and outputs of earlier steps that later ones need."""
# tokens and rows enough that a gate ends some of them and lets others go on, whatever of them it reads
_SIZE = (32, 8)
_SATURATING = 1e4
"""A stream of this size saturates the gates that read it."""


@dataclass(frozen=True)
class _Trace:
    """What the calls were given, by call, and the logits."""

    inputs: list[Tensor]
    arguments: list[dict[Path, Tensor]]
    logits: Tensor


def require_one_order(model: nn.Module, calls: CallOrder, name: str) -> None:
    """Refuse a model whose blocks are called in another order, or another number of times, for other tokens.

    Raises:
        ModelError: the orders differ.
    """
    for ids_BT in (random_ids(model), probe_ids(model, 3, 7)):
        order: list[int] = []

        def note(call: Call, order: list[int] = order) -> None:
            order.append(int(call.path))

        with called([(str(index), block) for index, block in enumerate(calls.sources)], note):
            plain_forward(model, ids_BT, name)
        if tuple(order) != calls.order:
            raise ModelError(
                f"{name} ({type(model).__name__}) loops, and calls its blocks {len(order)} times for one input and "
                f"{len(calls.order)} times for another: its prompts have no common depth. Set it to run all loops."
            )


@torch.no_grad()
def find_dependence(
    model: nn.Module, calls: CallOrder, returns: Sequence[int | None], like: Tensor, name: str
) -> Dependence:
    """Find which earlier outputs the input of every call depends on; no block is run.

    Args:
        returns: by call None where the block returns a tensor, else the length of the tuple.
        like: a stream, [rows, tokens, width].

    Raises:
        ModelError: the forward draws random numbers, calls blocks on streams of different shapes, gives a block
            arguments made from the stream, ends its loops by what the stream holds, or reads out more than the last
            stream.
    """
    generator = torch.Generator().manual_seed(0)
    # of the whole vocabulary: a gate may read the embedding of a row's first token alone
    ids_BT = torch.randint(vocabulary(model), _SIZE, generator=generator).to(home_of(model))

    def draw() -> Tensor:
        return torch.randn(*_SIZE, like.shape[-1], generator=generator).to(like.device, like.dtype)

    outputs = [draw() for _ in calls.order]
    kind = f"{name} ({type(model).__name__})"
    first = _trace(model, calls, returns, outputs, ids_BT)
    _require_shapes(first, kind)
    _require_same(first, _trace(model, calls, returns, outputs, ids_BT), kind)
    last = len(outputs) - 1
    everything = _trace(model, calls, returns, [*(draw() for _ in outputs[:-1]), outputs[last]], ids_BT)
    _require_arguments(first, everything, kind)
    _require_all_loops(model, calls, returns, draw(), ids_BT, kind)
    if not torch.equal(first.logits, everything.logits):
        raise ModelError(
            f"{kind} cannot be measured: its logits depend on what steps before the last one gave, so that no stream "
            "alone is read out. Set it to read out its last loop."
        )
    plain = tuple(k > 0 and torch.equal(first.inputs[k], outputs[k - 1]) for k in range(len(outputs)))
    if all(plain[1:]):
        return Dependence(plain, tuple(frozenset({k - 1} if k else ()) for k in range(len(outputs))))
    earlier: list[set[int]] = [set() for _ in outputs]
    for changed in range(last):
        other = _trace(model, calls, returns, [*outputs[:changed], draw(), *outputs[changed + 1 :]], ids_BT)
        for k in range(changed + 1, len(outputs)):
            if not torch.equal(first.inputs[k], other.inputs[k]):
                earlier[k].add(changed)
    needed = {j for k, steps in enumerate(earlier) for j in steps if j < k - 1}
    if 1 + len(needed) > MOST_STATES:
        raise ModelError(
            f"{kind} cannot be measured: later steps need what {len(needed)} earlier ones gave, and "
            f"{MOST_STATES - 1} are allowed. Let each loop depend on fewer of the loops before it."
        )
    return Dependence(plain, tuple(map(frozenset, earlier)))


def _trace(
    model: nn.Module, calls: CallOrder, returns: Sequence[int | None], outputs: Sequence[Tensor], ids_BT: Tensor
) -> _Trace:
    sinks: list[list[tuple[Tensor, BlockArguments]]] = [[] for _ in outputs]

    def give(number: int) -> Callable[..., Any]:
        note = stub(calls.sources[calls.order[number]].forward, None, sinks[number])

        def forward(*args: Any, **kwargs: Any) -> Any:
            note(*args, **kwargs)
            return as_returned(outputs[number], returns[number])

        return forward

    with calls.replaced([give(number) for number in range(len(outputs))]):
        out = model(input_ids=ids_BT, use_cache=False)
    inputs, arguments = zip(*(sink[0] for sink in sinks))
    return _Trace(list(inputs), [dict(walk(block.values)) for block in arguments], logits_of(out))


def _require_shapes(trace: _Trace, kind: str) -> None:
    shapes = [tuple(value.shape) for value in trace.inputs]
    other = next((step for step, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is not None:
        raise ModelError(
            f"{kind} cannot be measured: step {other} takes a stream of shape {shapes[other]} and step 0 one of "
            f"{shapes[0]}. All runs of its blocks must take all tokens in one width."
        )


def _require_same(trace: _Trace, again: _Trace, kind: str) -> None:
    for step, (value, other) in enumerate(zip(trace.inputs, again.inputs)):
        if not torch.equal(value, other):
            raise ModelError(
                f"{kind} cannot be measured: its own forward draws random numbers before step {step}. Name the method "
                "that draws, load(model, family=Family(..., initial_state='NAME')), and set config.state_seed."
            )


def _require_all_loops(
    model: nn.Module, calls: CallOrder, returns: Sequence[int | None], like: Tensor, ids_BT: Tensor, kind: str
) -> None:
    """Refuse loops that end by themselves where every token has converged, or a gate says so of every token."""
    for size in (_SATURATING, -_SATURATING):
        # the same vector at every token and step: converged, and on one side of any gate
        stream = (size * like[:1, :1]).expand_as(like)
        try:
            _trace(model, calls, returns, [stream] * len(calls.order), ids_BT)
        except ModelError as error:
            raise ModelError(
                f"{kind} cannot be measured: it ends its loops early, by what the stream holds, so that its prompts "
                "have no common depth. Set it to run all loops."
            ) from error


def _require_arguments(trace: _Trace, other: _Trace, kind: str) -> None:
    """Refuse arguments that come from the stream, such as a mask of the tokens that go on."""
    for step, (arguments, others) in enumerate(zip(trace.arguments, other.arguments)):
        path = _differing(arguments, others)
        if path:
            raise ModelError(
                f"{kind} cannot be measured: what step {step} is given as {path} is computed from the stream, such as "
                "a gate that ends some tokens early. Set it to run all tokens through all loops."
            )


def _differing(arguments: dict[Path, Tensor], others: dict[Path, Tensor]) -> str:
    paths: Iterable[Path] = sorted(arguments.keys() | others.keys(), key=str)
    for path in paths:
        value, other = arguments.get(path), others.get(path)
        if value is None or other is None or not torch.equal(value, other):
            return ".".join(map(str, path))
    return ""
