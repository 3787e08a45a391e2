"""Integrated gradients of the answer's probability along the paths of every block of one prompt.

IG[t] = Σ_d (x − x̃)[t,d] · average over α of ∂P/∂x[t,d]. Many points of the paths are rows of one call: the rows
of all sites of a block join at the boundary after it, run to the end together, and one backward pass gives the
gradient of each. Source: csordas2025, integrated gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.gradients.chain import Chain
from bathyscope.gradients.path import Path, path_of
from bathyscope.gradients.quadrature import Quadrature
from bathyscope.gradients.trajectory import Trajectory
from bathyscope.wavefront.calls import even_pieces

# for what autograd saves in one call; temporaries of one block and the gradients of its rows come on top
_SAVED_BYTES = 1 << 30
_SAVED_BYTES_ACCELERATOR = 8 << 30


@dataclass(frozen=True)
class Integral:
    """One site's integral.

    Args:
        attribution_T: per token, float64; the tokens of the chain.
        completeness: Σ_t attribution − (P(x) − P(x̃)); 0 = the integral is exact.
    """

    attribution_T: Tensor
    completeness: float


@dataclass(frozen=True)
class Integrator:
    """Integrates along the paths of one prompt.

    Args:
        chain: the prompt's blocks.
        quadrature: where on the paths gradients are taken.
        call_tokens: tokens per call, at most.
    """

    anatomy: Anatomy
    chain: Chain
    trajectory: Trajectory
    quadrature: Quadrature
    call_tokens: int

    def integrate(self, index: int, sites: Sequence[str], baseline: str) -> list[Integral]:
        """The integrals of the given sites of block ``index``, in their order."""
        chain = self.chain
        paths = [path_of(self.anatomy, self.trajectory, index, site, baseline, chain.tokens) for site in sites]
        device, nodes = paths[0].end_TD.device, len(self.quadrature.nodes)
        alphas = torch.tensor(self.quadrature.nodes, dtype=torch.float64, device=device)
        weights = torch.tensor(self.quadrature.weights, dtype=torch.float64, device=device)
        mean_STD = torch.zeros_like(torch.stack([path.delta_TD for path in paths]))
        for first, last in even_pieces(len(paths) * nodes, self._rows_per_call(index)):
            picked = _split(first, last, nodes)
            leaves = [paths[s].points(alphas[own]) for s, own in picked]
            score = chain.predict(self._rows(index, [paths[s] for s, _ in picked], leaves), index + 1).sum()
            for (s, own), gradient in zip(picked, torch.autograd.grad(score, leaves)):
                mean_STD[s] += torch.einsum("n,ntd->td", weights[own], gradient.double())
        return self._integrals(index, paths, mean_STD)

    def _rows(self, index: int, paths: Sequence[Path], leaves: Sequence[Tensor]) -> Tensor:
        """The residual stream after block ``index`` at points of several paths, [rows, tokens, width]."""
        before_TD = self.trajectory.boundaries[index]
        return torch.cat(
            [
                leaf if path.part is None else self.chain.rerun(index, before_TD, path.part, leaf)
                for path, leaf in zip(paths, leaves)
            ]
        )

    def _integrals(self, index: int, paths: Sequence[Path], mean_STD: Tensor) -> list[Integral]:
        with torch.no_grad():
            origin = mean_STD.new_zeros(1)
            at_baseline = self.chain.predict(self._rows(index, paths, [p.points(origin) for p in paths]), index + 1)
        found = []
        for path, mean_TD, start in zip(paths, mean_STD, at_baseline.tolist()):
            attribution_T = (path.delta_TD * mean_TD).sum(-1)
            explained = self.chain.probability - start
            found.append(Integral(attribution_T, float(attribution_T.sum()) - explained))
        return found

    def _rows_per_call(self, index: int) -> int:
        """As many as the tokens of a call and the memory for its graph allow, at least one."""
        accelerated = self.trajectory.boundaries[0].device.type != "cpu"
        room = _SAVED_BYTES_ACCELERATOR if accelerated else _SAVED_BYTES
        # a part that is replaced inside the block keeps that block's graph too
        return max(1, min(self.call_tokens // self.chain.tokens, room // max(1, self.chain.row_bytes[index])))


def _split(first: int, last: int, nodes: int) -> list[tuple[int, slice]]:
    """Rows first … last − 1, path after path, as (path, its nodes)."""
    return [
        (s, slice(max(first - s * nodes, 0), min(last - s * nodes, nodes)))
        for s in range(first // nodes, -(-last // nodes))
    ]
