"""What one short plain forward shows of a model's blocks: their order, and what each returns."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.calls import Call, called, replaced_forwards
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.recording import stub
from bathyscope.model.anatomy.replay import unwrap
from bathyscope.model.streaming.lending import lender_of

# rows and tokens differ in number, so that a transposed stream is seen
OBSERVED_SHAPE = (1, 2)


@dataclass(frozen=True)
class Observed:
    """What one short plain forward shows.

    Args:
        outputs: by call what the block gives, in the model's own form.
        order: by call which of the blocks it runs.
        returns: by call None where the block returns a tensor, else the length of the tuple.
        computes_between: whether some block is given anything else than what the block before it gave.
        result: the type of all that the last block returns.
    """

    outputs: tuple[Tensor, ...]
    order: tuple[int, ...]
    returns: tuple[int | None, ...]
    computes_between: bool
    result: type[Any]


def observe(model: nn.Module, family: Family, blocks: Sequence[nn.Module]) -> Observed:
    """Observe in one short plain forward the stream, the calls of blocks, and what kind of thing each returns.

    Of streamed blocks only the first of each class runs, and the others pass the stream on in the same way. Where every
    block runs once, calls are listed in the order of the blocks.
    """
    calls: list[tuple[int, Any]] = []
    inputs: list[Any] = []
    output_by_class: dict[type, Any] = {}

    def note(call: Call) -> None:
        output_by_class[type(call.module)] = call.output
        calls.append((int(call.path), call.output))
        inputs.append(next(iter(call.bound.values())))

    def run_first_of_class(block: nn.Module) -> Callable[..., Any]:
        run_block = block.forward

        @wraps(run_block)
        def forward(*args: Any, **kwargs: Any) -> Any:
            earlier = output_by_class.get(type(block))
            if hasattr(earlier, "_fields"):  # whoever calls the block reads it by its fields
                return earlier
            # bringing every block from disk to learn that all of them return the same would read the model twice
            run = run_block if earlier is None else stub(run_block, _length(earlier), [])
            return run(*args, **kwargs)

        return forward

    streamed = lender_of(blocks[0]) is not None
    with (
        replaced_forwards(blocks, [run_first_of_class(block) for block in blocks]) if streamed else nullcontext(),
        called([(str(index), block) for index, block in enumerate(blocks)], note),
    ):
        plain_forward(model, probe_ids(model, *OBSERVED_SHAPE), family.name)
    idle = sorted(set(range(len(blocks))) - {index for index, _ in calls})
    if idle:
        apart = _count_apart(model, blocks)
        raise ModelError(f"{family.name}: blocks {idle} of {family.blocks} did not run in a plain forward.{apart}")
    states = [_state_of(output) for _, output in calls]
    # of paired streams the first argument and the first field need not be the same one; replay compares both
    between = family.paired is None and any(_differs(value, state) for value, state in zip(inputs[1:], states))
    if len(calls) == len(blocks):
        calls.sort(key=itemgetter(0))
    order, outputs = zip(*calls)
    return Observed(tuple(map(_state_of, outputs)), order, tuple(map(_length, outputs)), between, type(outputs[-1]))


def _count_apart(model: nn.Module, blocks: Sequence[nn.Module]) -> str:
    """Say that a configuration counts other blocks than the lists hold (leading blank); empty where it does not."""
    count = getattr(config_of(model), "num_hidden_layers", None)
    if not isinstance(count, int) or count == len(blocks):
        return ""
    return (
        f" The configuration says {count} blocks (num_hidden_layers), and the model has {len(blocks)}: set "
        f"config.num_hidden_layers = {len(blocks)}, or remove the others."
    )


def _differs(value: Any, state: Tensor) -> bool:
    """Whether a block is given another stream than this one; states of several streams are compared when replayed."""
    return (
        isinstance(value, Tensor)
        and value.ndim == state.ndim == 3
        and (value.shape, value.dtype, value.device) == (state.shape, state.dtype, state.device)
        and value.device.type != "meta"
        and not torch.equal(value, state)
    )


def _state_of(output: Any) -> Tensor:
    """Return a block's state, which has an axis more where there are several streams."""
    value = output[0] if isinstance(output, tuple | list) else output
    return value if isinstance(value, Tensor) and value.ndim == 4 else unwrap(output)


def _length(output: Any) -> int | None:
    """Return the length of the tuple that a block returns; None where it returns the stream alone."""
    return len(output) if isinstance(output, tuple | list) else None
