"""The gradient of a prompt's mean loss with respect to the residual stream at every boundary, from last to first.

Each block is run once more on the stored stream, and the gradient at its output is pulled back to its input, so that
only one block's graph is in memory. Next to the whole gradient goes its *own* part: that of each token's own loss with
respect to the stream at the same token. A token's own prediction is read at the token, and attention only moves
information forward, so all paths of the own part stay at the token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.gaps import token_gap
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.precision import widened
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.streaming.lending import lent
from bathyscope.wavefront.calls import even_pieces
from bathyscope.wavefront.gradients.differentiable import score_scale
from bathyscope.wavefront.gradients.one_token import OneTokenRows
from bathyscope.wavefront.gradients.pullback import BlockGraph, Flow, states_before_blocks

# Float32 logits read at once, and keys and values of rows that own one token each: near the size of a CPU's caches.
_LOGIT_BYTES = 64 << 20
_KEY_BYTES = 16 << 20
_ACCELERATOR_FACTOR = 32
_FEWEST = 8


@dataclass(frozen=True)
class DepthGradients:
    """Gradients of one prompt's mean next-token loss, in nats; ``boundaries`` are h_0 … h_L, [tokens, width] each."""

    anatomy: Anatomy
    checks: Checks
    boundaries: Sequence[Tensor]
    ids: Tensor

    def sweep(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield boundaries L … 0, each with the whole gradient and its own part, [tokens, width] float64."""
        replay = self.anatomy.replay(self.ids[None])
        n_blocks = self.anatomy.n_blocks
        states = states_before_blocks(self.anatomy, replay, self.boundaries)
        scale = score_scale(self.boundaries[-1].dtype)
        at_readout_TD = self._at_readout(scale)
        total = Flow(at_readout_TD[None], {})
        own_part = Flow(at_readout_TD[:, None], {})
        yield n_blocks, at_readout_TD.double() / scale, at_readout_TD.double() / scale
        for index in reversed(range(n_blocks)):
            with lent(self.anatomy.blocks[index]) as block:
                captured = CaptureCache() if self.checks.tails else None
                plain = partial(replay.run, block, index, prompts_N=None, cache=captured)
                graph = BlockGraph.of(self.boundaries[index][None], states[index], plain)
                total = graph.pull_back(total, keep=True)
                rows = self._pull_back_by_rows(replay, block, index, states[index], captured, own_part)
                own_part = rows if rows is not None else _pull_back_by_token(graph, own_part)
            yield index, total.resid[0].double() / scale, own_part.resid[:, 0].double() / scale

    def _at_readout(self, scale: float) -> Tensor:
        """Return scale · ∂(mean loss)/∂h_L, where every token acts on its own loss alone.

        The last token has no loss, and gets 0.
        """
        final_TD = self.boundaries[-1]
        targets = self.ids[1:, None]
        gradient_TD = torch.zeros_like(final_TD)
        most = max(_FEWEST, _LOGIT_BYTES // (4 * self.anatomy.vocabulary))
        for first, last in even_pieces(len(targets), most):
            leaf = final_TD[first:last].clone().requires_grad_()
            logits_NV = self.anatomy.readout(leaf)
            loss = -widened(logits_NV).log_softmax(-1).gather(-1, targets[first:last]).sum() / len(targets)
            (gradient_TD[first:last],) = torch.autograd.grad(loss * scale, leaf)
        return gradient_TD

    def _pull_back_by_rows(
        self,
        replay: Replay,
        block: nn.Module,
        index: int,
        state: State,
        captured: CaptureCache | None,
        own_part: Flow,
    ) -> Flow | None:
        """Pull the own part back over the block with a row for every token; None where such rows are not the block's.

        The rows' outputs must be the plain forward's: a block that carries anything else from token to token than
        keys and values (a convolution, a recurrence) fails that.
        """
        if captured is None:
            return None
        length = len(self.ids)
        rows = OneTokenRows(replay.recording.blocks[index], captured, replay.attends(index, captured), length)
        if not rows.is_possible:
            return None
        flows: list[Flow] = []
        for first, last in even_pieces(length, _rows_per_call(captured, state)):
            run = partial(rows.run, block, tokens=range(first, last))
            graph = BlockGraph.of(self.boundaries[index][first:last, None], state, run)
            if token_gap(graph.out.detach()[:, 0], self.boundaries[index + 1][first:last]) > self.checks.tolerance:
                return None
            passed = {entry: gradient[first:last] for entry, gradient in own_part.passed.items()}
            flows.append(graph.pull_back(Flow(own_part.resid[first:last], passed)))
        return _join(flows)


def _pull_back_by_token(graph: BlockGraph, own_part: Flow) -> Flow:
    """Pull the own part back with one backward pass over the whole prompt for every token."""
    flows = []
    for token in range(len(own_part.resid)):
        resid = torch.zeros_like(graph.out)
        resid[0, token] = own_part.resid[token, 0]
        passed = {entry: gradient[token : token + 1] for entry, gradient in own_part.passed.items()}
        flow = graph.pull_back(Flow(resid, passed), keep=True)
        flows.append(Flow(flow.resid[:, token : token + 1], flow.passed))
    return _join(flows)


def _join(flows: Sequence[Flow]) -> Flow:
    """Join the rows of several flows."""
    passed = {entry: torch.cat([flow.passed[entry] for flow in flows]) for entry in flows[0].passed}
    return Flow(torch.cat([flow.resid for flow in flows]), passed)


def _rows_per_call(captured: CaptureCache, state: Mapping[object, tuple[Tensor, ...]]) -> int:
    """Return how many rows' copies of the prompt's keys and values fit into the memory for them."""
    tensors_of_row = (captured.keys, captured.values, *(t for tensors in state.values() for t in tensors))
    copied = [tensor for tensor in tensors_of_row if tensor is not None]
    room = _KEY_BYTES * (_ACCELERATOR_FACTOR if any(t.device.type != "cpu" for t in copied) else 1)
    return max(1, room // max(1, sum(t.nbytes for t in copied)))
