"""One block as a graph: it runs on leaves, and gradients at its outputs are pulled back to its inputs.

Going back through a model block by block needs the graph of one block at a time. Besides the residual stream, some
families pass keys and values from one block to later ones; these have gradients of their own on the way back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.streaming.lending import lent

Entry = tuple[object, int]


@dataclass
class Flow:
    """A gradient on its way back: with respect to the stream, and to what blocks passed on next to it."""

    resid: Tensor
    """[rows, tokens, width]"""
    passed: dict[Entry, Tensor]
    """By entry of the state, as far as later blocks read it."""


@dataclass(frozen=True)
class BlockGraph:
    """One run of a block: leaves that went in, and what came out."""

    leaf: Tensor
    state_in: State
    out: Tensor
    state_out: State

    @classmethod
    def of(cls, before: Tensor, state: State, run: Callable[..., Tensor]) -> Self:
        """Run a block from new leaves, on rows of the stream and of what earlier blocks passed on to them."""
        leaf = _leaf(before)
        rows = len(before)
        state_in = {key: tuple(_leaf(t.expand(rows, *t.shape[1:])) for t in ts) for key, ts in state.items()}
        state_out = dict(state_in)
        return cls(leaf, state_in, run(leaf, state=state_out), state_out)

    def pull_back(self, flow: Flow, *, keep: bool = False) -> Flow:
        """Return the gradient at the inputs for the one at the outputs; ``keep`` the graph for another."""
        # blocks may pass on chosen positions too, to which there is no gradient
        entries = [(key, i) for key, ts in self.state_in.items() for i, t in enumerate(ts) if t.requires_grad]
        resid_gradient, *state_gradients = torch.autograd.grad(
            [self.out, *(self.state_out[key][i] for key, i in flow.passed)],
            [self.leaf, *(self.state_in[key][i] for key, i in entries)],
            [flow.resid, *flow.passed.values()],
            retain_graph=keep,
            allow_unused=True,
        )
        passed = {entry: gradient for entry, gradient in zip(entries, state_gradients) if gradient is not None}
        return Flow(resid_gradient, passed)


def states_before_blocks(anatomy: Anatomy, replay: Replay, boundaries: Sequence[Tensor]) -> list[State]:
    """Return what the blocks before each boundary pass on in the plain forward of one prompt.

    Args:
        boundaries: h_0 … h_L, [tokens, width] each.
    """
    if not any(arguments.state is not None for arguments in replay.recording.blocks):
        return [{}] * anatomy.n_blocks
    states: list[State] = []
    state: State = {}
    for index, resid_TD in enumerate(boundaries[:-1]):
        states.append(dict(state))
        with lent(anatomy.blocks[index]) as block, torch.no_grad():
            replay.run(block, index, resid_TD[None], None, state=state)
    return states


def _leaf(values: Tensor) -> Tensor:
    """Return a copy that begins a graph, unless it holds whole numbers."""
    return values.detach().clone().requires_grad_(values.is_floating_point())
