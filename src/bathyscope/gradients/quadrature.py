"""Rules for averaging a function over the path from a baseline (α = 0) to the actual activations (α = 1)."""

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Quadrature:
    """Nodes α in [0, 1] and their weights, which sum to 1."""

    nodes: tuple[float, ...]
    weights: tuple[float, ...]


def left_riemann(steps: int) -> Quadrature:
    """α = k / steps for k = 0 … steps − 1, equally weighted: the papers' sum."""
    return Quadrature(tuple(k / steps for k in range(steps)), (1 / steps,) * steps)


@cache
def gauss_legendre(nodes: int) -> Quadrature:
    """The rule that is exact for polynomials in α of degree 2 · nodes − 1."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return Quadrature(tuple(((1 + points) / 2).tolist()), tuple((weights / 2).tolist()))
