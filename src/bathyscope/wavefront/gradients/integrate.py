"""Integrated gradients of the answer's probability, or of its logits, along the paths of every block of one prompt.

IG[t] = Σ_d (x − x̃)[t,d] · average over α of ∂P/∂x[t,d]. Many points of the paths are rows of one call: the rows
of all sites of a block join at the boundary after it, run to the end together, and one backward pass gives the
gradient of each. The attributions of a path must add up to the change of P along it, so a rule with too few nodes is
noticed, and a finer rule is taken there. Source: csordas2025, integrated gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.wavefront.calls import in_pieces
from bathyscope.wavefront.gradients.chain import AnswerChain
from bathyscope.wavefront.gradients.differentiable import score_scale
from bathyscope.wavefront.gradients.trajectory import Trajectory

# Memory for what autograd saves in one call; temporaries of one block and the gradients of its rows come on top.
_SAVED_BYTES = 1 << 30
_SAVED_BYTES_ACCELERATOR = 8 << 30
# How far an integral may be from the sum it explains: by the quadrature, as a share of its largest attribution; and by
# rounding, in units of the dtype's precision times what is integrated.
_ACCURATE = 1e-4
_ROUNDING = 32


@dataclass(frozen=True)
class Path:
    """x(α) = end − (1 − α) · delta at all tokens jointly, from a baseline to the actual activations of a site.

    Sites: ``block`` (x = h_{l+1}), ``attention`` (x = a_l) and ``mlp`` (x = m_l). Every path is followed as rows of
    the residual stream at boundary l+1. A contribution that is the block's last sum enters that stream linearly, so
    that moving it moves h_{l+1} by as much; only an earlier one needs its own block to be run again.

    Args:
        end_TD: where it ends (α = 1): h_{l+1}, or the contribution itself where ``part`` is given.
        delta_TD: x − x̃ in float64, times what multiplies x where it is added.
        part: the contribution that must be replaced inside the block; None = the path is one of h_{l+1}.
    """

    end_TD: Tensor
    delta_TD: Tensor
    part: str | None = None

    def points(self, alphas_N: Tensor) -> Tensor:
        """Return x(α) for every α, [nodes, tokens, width], as leaves of the graph."""
        back_NTD = (1 - alphas_N)[:, None, None] * self.delta_TD
        return (self.end_TD.double() - back_NTD).to(self.end_TD.dtype).requires_grad_()


def enters_linearly(anatomy: Anatomy, part: str) -> bool:
    """Say whether nothing in the block reads the stream after this part's contribution was added."""
    # Contributions that are neither attention's nor the MLP's come after the MLP's.
    return anatomy.parallel or (part == "mlp" and not any(name.startswith("other") for name in anatomy.sites))


def path_of(anatomy: Anatomy, trajectory: Trajectory, index: int, site: str, baseline: str, tokens: int) -> Path:
    """Return the path of one site of block ``index``.

    Args:
        baseline: "tokens" = x̃ is the mean of x over all tokens of the prompt; "channels" = each token's mean over
            its channels (what hu2025's published code computes).
        tokens: how many first tokens to keep, after the mean was taken.
    """
    after_TD = trajectory.boundaries[index + 1]
    x_TD = (after_TD if site == "block" else trajectory.parts[site][index]).double()
    # The mean over all tokens of the prompt is taken first; only then are the last tokens cut off.
    delta_TD = (x_TD - x_TD.mean(0 if baseline == "tokens" else 1, keepdim=True))[:tokens]
    if site == "block":
        return Path(after_TD[:tokens], delta_TD)
    if enters_linearly(anatomy, site):
        return Path(after_TD[:tokens], delta_TD * anatomy.block_scale(anatomy.blocks[index]))
    return Path(trajectory.parts[site][index][:tokens], delta_TD, site)


@dataclass(frozen=True)
class Quadrature:
    """A rule for averages over a path: nodes α in [0, 1], from baseline to activations, and weights, which sum to 1."""

    nodes: tuple[float, ...]
    weights: tuple[float, ...]


def left_riemann(steps: int) -> Quadrature:
    """Return the papers' sum: α = k / steps for k = 0 … steps − 1, equally weighted."""
    return Quadrature(tuple(k / steps for k in range(steps)), (1 / steps,) * steps)


@cache
def gauss_legendre(nodes: int) -> Quadrature:
    """Return the rule that is exact for polynomials in α of degree 2 · nodes − 1."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return Quadrature(tuple(((1 + points) / 2).tolist()), tuple((weights / 2).tolist()))


@dataclass(frozen=True)
class Integral:
    """One site's integral.

    Args:
        attribution_T: per token, float64; the tokens of the chain.
        completeness: Σ_t attribution − (P(x) − P(x̃)); 0 = the integral is exact.
        rounding: how large rounding alone may make it.
    """

    attribution_T: Tensor
    completeness: float
    rounding: float

    @property
    def is_accurate(self) -> bool:
        """More nodes would not change it."""
        return abs(self.completeness) <= _ACCURATE * float(self.attribution_T.abs().max()) + self.rounding


@dataclass(frozen=True)
class Integrator:
    """Integrates along the paths of one prompt.

    Args:
        rules: where on the paths gradients are taken; each rule after the first, where those before were inaccurate.
        call_tokens: the most tokens of one call.
    """

    chain: AnswerChain
    trajectory: Trajectory
    rules: Sequence[Quadrature]
    call_tokens: int

    def integrate(self, index: int, sites: Sequence[str], baseline: str) -> list[Integral]:
        """Return the integrals of some sites of block ``index``, in their order."""
        chain = self.chain
        paths = [path_of(chain.anatomy, self.trajectory, index, site, baseline, chain.tokens) for site in sites]
        with torch.no_grad():
            origin = paths[0].delta_TD.new_zeros(1)
            rows = self._rows(index, paths, [path.points(origin) for path in paths])
            at_baseline_S = chain.predict(rows, index + 1).double()
        at_end = chain.score
        integrals: dict[int, Integral] = {}
        for rule in self.rules:
            poor = [s for s in range(len(paths)) if s not in integrals or not integrals[s].is_accurate]
            if poor:
                gradients = self._mean_gradients(index, [paths[s] for s in poor], rule)
                sums = [(paths[s].delta_TD * gradient_TD).sum(-1) for s, gradient_TD in zip(poor, gradients)]
                # The host decides whether they are accurate, so everything goes there in one transfer.
                sizes = [*map(len, sums), len(paths)]
                *attributions, at_baseline = torch.cat([*sums, at_baseline_S]).cpu().split(sizes)
                for s, attribution_T in zip(poor, attributions):
                    at_start = float(at_baseline[s])
                    rounding = _ROUNDING * torch.finfo(paths[s].end_TD.dtype).eps * max(abs(at_end), abs(at_start))
                    completeness = float(attribution_T.sum()) - (at_end - at_start)
                    integrals[s] = Integral(attribution_T, completeness, rounding)
        return [integrals[s] for s in range(len(paths))]

    def _mean_gradients(self, index: int, paths: Sequence[Path], rule: Quadrature) -> Tensor:
        """Return the average over α of ∂P/∂x, [paths, tokens, width] float64."""
        mean_STD = torch.zeros_like(torch.stack([path.delta_TD for path in paths]))
        nodes = len(rule.nodes)
        # gradients of probabilities may be too small for float16; those of logits are not
        scale = score_scale(paths[0].end_TD.dtype) if self.chain.target == "probability" else 1.0
        alphas = mean_STD.new_tensor(rule.nodes)
        weights = mean_STD.new_tensor(rule.weights)

        def add_rows(first: int, last: int) -> None:
            picked = _split(first, last, nodes)
            leaves = [paths[s].points(alphas[path_nodes]) for s, path_nodes in picked]
            rows = self._rows(index, [paths[s] for s, _ in picked], leaves)
            score = self.chain.predict(rows, index + 1).sum() * scale
            gradients = zip(picked, torch.autograd.grad(score, leaves))
            sums = [
                (s, torch.einsum("n,ntd->td", weights[path_nodes], gradient.double()))
                for (s, path_nodes), gradient in gradients
            ]
            # Added last and all at once: a range that runs out of memory is repeated, and must have added nothing.
            for s, sum_TD in sums:
                mean_STD[s] += sum_TD

        what = f"A backward pass through the blocks behind block {index}"
        in_pieces(len(paths) * nodes, self._rows_per_call(index), add_rows, what, mean_STD.device)
        return mean_STD / scale

    def _rows(self, index: int, paths: Sequence[Path], leaves: Sequence[Tensor]) -> Tensor:
        """Return the residual stream after block ``index`` at points of several paths, [rows, tokens, width]."""
        before_TD = self.trajectory.boundaries[index]
        return torch.cat(
            [
                leaf if path.part is None else self.chain.rerun(index, before_TD, path.part, leaf)
                for path, leaf in zip(paths, leaves)
            ]
        )

    def _rows_per_call(self, index: int) -> int:
        """Return as many rows as the tokens of a call and the memory for its graph allow, at least one."""
        accelerated = self.trajectory.boundaries[0].device.type != "cpu"
        room = _SAVED_BYTES_ACCELERATOR if accelerated else _SAVED_BYTES
        # A part that is replaced inside the block needs the memory of that block's graph too.
        return max(1, min(self.call_tokens // self.chain.tokens, room // max(1, self.chain.row_bytes[index])))


def _split(first: int, last: int, nodes: int) -> list[tuple[int, slice]]:
    """Divide rows first … last − 1, path after path, into pairs (path, its nodes)."""
    return [
        (s, slice(max(first - s * nodes, 0), min(last - s * nodes, nodes)))
        for s in range(first // nodes, -(-last // nodes))
    ]
