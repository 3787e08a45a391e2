"""Where the neurons of each block's MLP keep their output weights: what a neuron adds to the residual stream.

Nothing is looked up by name. Every matrix of the modules whose output becomes the MLP's contribution is put to one
test on the live model: with the weights of a single residual channel changed, that channel of the output changes and
no other does. Down projections pass it, stored in whichever direction, for one MLP or stacked for many experts; gates,
up projections and routers, which every channel depends on, do not.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, chain, combinations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.calls import Call, calls_within
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.plain import probe_ids
from bathyscope.model.anatomy.readout import norm_kind
from bathyscope.model.anatomy.replay import State
from bathyscope.model.anatomy.sites import site_modules
from bathyscope.model.shards import whole_block
from bathyscope.model.streaming.lending import lent

_PROBE_SIZE = (2, 6)
_OTHER_CHANNELS = 1e-3
_EXPERT_COUNTS = ("num_experts", "moe_num_experts")


@dataclass(frozen=True)
class OutputWeights:
    """Output weights of the neurons of one MLP, or of the experts that are stored together.

    The ``weight`` of a streamed block is read while the block is lent.

    Args:
        path: of the weight, from the block.
        axis: its axis of residual channels.
        owner: the module that holds it.
        experts: how many experts it stacks; None = it is no routed experts' weight.
        gain: [width], of a norm between the weight and the residual stream; None = no norm.
        centred: that norm takes the mean over channels away.
    """

    block: nn.Module
    path: str
    axis: int
    owner: nn.Module
    experts: int | None
    gain: Tensor | None = None
    centred: bool = False

    @property
    def weight(self) -> Tensor:
        """The live parameter: never written to."""
        return self.block.get_parameter(self.path)

    @property
    def neurons(self) -> int:
        """Neurons of all its experts."""
        return self.weight.numel() // self.weight.shape[self.axis]

    @property
    def visible(self) -> bool:
        """Whether the activations of its neurons are the input of its module, [..., neurons]."""
        return self.experts is None and self.weight.ndim == 2

    def matrices(self) -> Iterator[Tensor]:
        """Yield [neurons, width] of each expert in turn, or of the MLP: views of the live weight."""
        rows = self.weight.detach().movedim(self.axis, -1)
        yield from [rows] if rows.ndim == 2 else rows.flatten(0, -3)

    def directions(self, rows_ND: Tensor) -> Tensor:
        """Return a float32 copy of some rows of a matrix, in the directions in which they reach the residual stream."""
        copied = rows_ND.to(torch.float32, copy=True)
        if self.centred:
            copied -= copied.mean(-1, keepdim=True)
        return copied if self.gain is None else copied * self.gain


def output_weights(anatomy: Anatomy) -> list[tuple[OutputWeights, ...]]:
    """Return output weights by block, routed experts first; empty for a block in which none pass the test.

    Raises:
        ModelError: quantised weights, with their dtype.
    """
    site = anatomy.sites.get("mlp")
    if site is None:
        return [() for _ in anatomy.blocks]
    weights_by_block = []
    with evaluating(anatomy.model), torch.no_grad():
        replay = anatomy.replay(probe_ids(anatomy.model, *_PROBE_SIZE))
        resid_BTD, state = replay.recording.resid0_BTD, State()
        for index, block in enumerate(anatomy.blocks):
            with lent(block), whole_block(block):
                with calls_within(block) as calls:
                    resid_BTD = replay.run(block, index, resid_BTD, state=state)
                modules = [module for module, _ in site_modules(block, site)]
                ends = [_Root(call) for module in modules for call in calls if call.module is module]
                roots = chain.from_iterable(_roots(calls, end, anatomy.stream_width) for end in ends)
                weights = list(chain.from_iterable(_passing(block, root, anatomy.stream_width) for root in roots))
            weights_by_block.append(tuple(sorted(weights, key=lambda entry: entry.experts is None)))
    return weights_by_block


@contextmanager
def at_hand(weights: Sequence[OutputWeights]) -> Iterator[None]:
    """Keep the weights of one block in memory inside, all of them on every rank."""
    with ExitStack() as stack:
        if weights:
            stack.enter_context(lent(weights[0].block))
            stack.enter_context(whole_block(weights[0].block))
        yield


def directions_of(weights: Sequence[OutputWeights], neurons: Sequence[int]) -> Tensor:
    """Return directions [neurons, width] of some neurons of one block, counted through all its ``weights``."""
    matrices = [(entry, matrix) for entry in weights for matrix in entry.matrices()]
    starts = [0, *accumulate(len(matrix) for _, matrix in matrices)]
    rows = []
    for neuron in neurons:
        place = bisect_right(starts, neuron) - 1
        entry, matrix = matrices[place]
        rows.append(entry.directions(matrix[neuron - starts[place]][None]))
    return torch.cat(rows)


@dataclass(frozen=True)
class _Root:
    """A call with matrices, and the norms between its output and the residual stream."""

    call: Call
    gain: Tensor | None = None
    centred: bool = False


def _first_tensor(call: Call) -> Tensor | None:
    """Return the first tensor among the arguments of a call."""
    return next((v for v in (*call.args, *call.kwargs.values()) if isinstance(v, Tensor)), None)


def _has_matrix(call: Call) -> bool:
    """Whether the module holds weights beyond vectors."""
    return any(weight.ndim > 1 for _, weight in _weights(call.module))


def _roots(calls: Sequence[Call], end: _Root, width: int) -> list[_Root]:
    """Find the calls with matrices whose outputs, perhaps normed and added, are the output of ``end``."""
    if _has_matrix(end.call):
        return [end]
    normed_input = _first_tensor(end.call)
    if normed_input is None:
        return []
    if not _same(normed_input, end.call.value):
        try:
            kind = norm_kind(end.call.module)
        except ModelError:
            return []  # what comes before it is then not found, which the caller sees
        gain = torch.as_tensor(kind.gain, device=normed_input.device).clone().expand(width)
        end = replace(end, gain=gain if end.gain is None else gain * end.gain, centred=kind.centred)
    return [
        root for source in _sources(calls, normed_input) for root in _roots(calls, replace(end, call=source), width)
    ]


def _sources(calls: Sequence[Call], value: Tensor) -> Sequence[Call]:
    """Find the outermost call that gave a value, or the two that add up to it."""
    giving = [call for call in calls if _same(call.value, value)]
    # a dropout in evaluation mode returns its argument
    working = [call for call in giving if _has_matrix(call) or not _same(_first_tensor(call), call.value)]
    if working:
        return [next((call for call in reversed(working) if _has_matrix(call)), working[-1])]
    whole = [call for call in calls if call.value.numel() == value.numel()]
    return next((pair for pair in combinations(whole, 2) if _adds_up(pair, value)), ())


def _adds_up(pair: Sequence[Call], value: Tensor) -> bool:
    first, second = (call.value.reshape(value.shape) for call in pair)
    return torch.equal(first + second, value)


def _same(first: Tensor | None, second: Tensor) -> bool:
    """Whether two values are equal, whether tokens and rows share an axis or not."""
    if first is None or first.shape[-1:] != second.shape[-1:] or first.numel() != second.numel():
        return False
    return torch.equal(first.reshape(second.shape), second)


def _weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters, and buffers that stand in for them in quantised modules."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _passing(block: nn.Module, root: _Root, width: int) -> Iterator[OutputWeights]:
    """Yield the matrices of a module that pass the test of the channels."""
    if root.call.value.shape[-1] != width:
        return
    for path, weight in _weights(root.call.module):
        if weight.ndim > 1 and (not weight.is_floating_point() or weight.element_size() == 1):
            raise ModelError(
                f"The neurons' output weights cannot be read: {root.call.path}.{path} is quantised "
                f"({str(weight.dtype).removeprefix('torch.')}). Load the model unquantised, in float32, bfloat16 or "
                "float16."
            )
    for path, weight in root.call.module.named_parameters():
        if weight.ndim < 2 or weight.numel() == width or "bias" in path.rpartition(".")[2]:
            continue  # experts' biases are stacked into matrices
        axes = [axis for axis in (weight.ndim - 2, weight.ndim - 1) if weight.shape[axis] == width]
        axis = next((axis for axis in axes if _writes(root, path, weight, axis)), None)
        if axis is not None:
            owner = root.call.module.get_submodule(path.rpartition(".")[0])
            full = f"{root.call.path}.{path}"
            yield OutputWeights(block, full, axis, owner, _experts(weight, axis, owner), root.gain, root.centred)


def _experts(weight: Tensor, axis: int, owner: nn.Module) -> int | None:
    if weight.ndim > 2:
        return math.prod(weight.shape[:-2])
    counts = (getattr(owner, name, None) for name in _EXPERT_COUNTS)
    return next((n for n in counts if isinstance(n, int) and weight.shape[1 - axis] % n == 0), None)


@torch.no_grad()
def _writes(root: _Root, path: str, weight: Tensor, axis: int) -> bool:
    """Whether other weights of one channel change that channel of the output, and no other."""
    channel = weight.shape[axis] // 2
    changed = weight.detach().clone()
    changed.select(axis, channel).add_(weight.detach().float().abs().mean().clamp_min(1e-3).to(weight.dtype))

    def run(parameters: dict[str, Tensor]) -> Tensor:
        # a fresh copy for each run, since some MLPs write into their argument
        call = root.call.copied()
        output = functional_call(call.module, parameters, call.args, dict(call.kwargs))
        return (output[0] if isinstance(output, tuple | list) else output).float()

    change = (run({path: changed}) - run({})).abs().flatten(0, -2).amax(0)
    change_of_channel = float(change[channel])
    change[channel] = 0
    return change_of_channel > 0 and float(change.max()) <= _OTHER_CHANNELS * change_of_channel
