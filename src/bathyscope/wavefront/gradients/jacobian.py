"""Rows of the Jacobian of the last boundary, averaged over a prompt: what the stream at a boundary does to the end.

A direction v of h_L is set as the cotangent of every target token at once and pulled back block by block. At a source
token p the result is Σ_{p' ≥ p} v' ∂h_L[p'] / ∂h_b[p], since attention only moves information forward; its mean over
the source tokens is one row of the prompt's Jacobian. Only one block's graph is in memory at any time, and each block
is visited once for all prompts and directions of a sweep, so that a streamed model is read once.

Suffixes: K directions, R of them in one backward pass, T tokens, D width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.streaming.lending import lent
from bathyscope.wavefront.gradients.pullback import BlockGraph, Flow, states_before_blocks
from bathyscope.wavefront.places import is_accelerator

# Tokens in one backward pass: as many as make products of weights efficient, since the graph of a block holds several
# times the stream of each.
_PASS_TOKENS = 1024
_PASS_TOKENS_ON_ACCELERATOR = 16384


@dataclass
class JacobianRows:
    """Directions of one prompt on their way from the last boundary to the first.

    Args:
        ids: of the prompt, [tokens].
        boundaries: h_0 … h_L, [tokens, width] each.
        counted: the tokens that are targets and sources.
        directions_KD: cotangents of h_L.
    """

    ids: Tensor
    boundaries: Sequence[Tensor]
    counted: slice
    directions_KD: Tensor
    _flow: Flow = field(init=False, repr=False)
    _replay: Replay = field(init=False, repr=False)
    _states: list[State] = field(init=False, repr=False)

    def begin(self, anatomy: Anatomy) -> None:
        """Set the cotangents, and record what blocks are called with."""
        final_TD = self.boundaries[-1]
        cotangents_KTD = final_TD.new_zeros(len(self.directions_KD), *final_TD.shape)
        cotangents_KTD[:, self.counted] = self.directions_KD.to(final_TD)[:, None]
        self._flow = Flow(cotangents_KTD, {})
        self._replay = anatomy.replay(self.ids[None])
        self._states = states_before_blocks(anatomy, self._replay, self.boundaries)

    def pull_back(self, block: nn.Module, index: int) -> Tensor:
        """Pull all directions back over a block; return the rows of the Jacobian there, [K, D] float32."""
        n_directions = len(self._flow.resid)
        at_once = self._directions_per_pass()
        before_RTD = self.boundaries[index].expand(at_once, -1, -1)
        run = partial(self._replay.run, block, index, prompts_N=None)
        # one graph serves all directions: running the block again for each would double the cost
        graph = BlockGraph.of(before_RTD, self._states[index], run)
        passed: dict[tuple[object, int], Tensor] = {}
        for first in range(0, n_directions, at_once):
            last = min(first + at_once, n_directions)
            pulled = graph.pull_back(self._part(first, at_once), keep=last < n_directions)
            if pulled.resid is None:
                raise ModelError(f"Block {index} gives an output that is cut off from its input; it has no gradient.")
            self._flow.resid[first:last] = pulled.resid[: last - first]
            for entry, gradient in pulled.passed.items():
                passed.setdefault(entry, gradient.new_zeros(n_directions, *gradient.shape[1:]))
                passed[entry][first:last] = gradient[: last - first]
        self._flow.passed = passed
        return self._flow.resid[:, self.counted].float().mean(1)

    def _part(self, first: int, size: int) -> Flow:
        """Return some directions, filled up with zeros to the size that the graph was made for."""

        def filled(rows: Tensor) -> Tensor:
            part = rows[first : first + size]
            missing = size - len(part)
            return part if not missing else torch.cat([part, part.new_zeros(missing, *part.shape[1:])])

        return Flow(filled(self._flow.resid), {entry: filled(rows) for entry, rows in self._flow.passed.items()})

    def _directions_per_pass(self) -> int:
        tokens, device = len(self.ids), self.ids.device
        most = _PASS_TOKENS_ON_ACCELERATOR if is_accelerator(device) else _PASS_TOKENS
        return max(1, min(len(self._flow.resid), most // tokens))


def sweep_back(anatomy: Anatomy, prompts: Sequence[JacobianRows]) -> Iterator[tuple[int, int, Tensor]]:
    """Yield block, number of the prompt, and the rows of its Jacobian at the block's input [K, D], last block first.

    Runs inside ``differentiating``.
    """
    for prompt in prompts:
        prompt.begin(anatomy)
    for index in reversed(range(anatomy.n_blocks)):
        with lent(anatomy.blocks[index]) as block:
            for number, prompt in enumerate(prompts):
                yield index, number, prompt.pull_back(block, index)
