"""Least squares from sums: affine maps with a ridge penalty, all penalties from one decomposition.

N tokens have features x and targets y; x̄, ȳ are their means, σ_d the deviation of feature d. The map x ↦ ȳ + W'(x − x̄)
with penalty λ ≥ 0 minimises

    Σ ‖(y − ȳ) − W'(x − x̄)‖² + λ N Σ_d σ_d² ‖W_d‖²,

that is W_λ = P (e + λ)⁻¹ P' Σ (x − x̄)(y − ȳ)' / N, where U diag(e) U' is the features' correlation matrix and
P = diag(1/σ) U. Penalties are counted in standardised features, whose mean eigenvalue is 1: so one value of λ means the
same for every boundary, and a channel that is a thousand times larger than the others does not decide how much these
are shrunk. The squared error on other tokens is a quadratic form in their sums; in the basis P it costs next to nothing
for one more λ. Directions without variance in the fitted tokens, to the rounding of float32, have no weight, which for
λ = 0 is the solution of least norm.

Suffixes: D features, E width of the target, K directions with variance, R penalties, N tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Penalties to choose from, in units of the mean variance of standardised features."""

# A float32 channel that differs at one of a million tokens deviates by more than this share of its mean.
_CONSTANT = 1e-12
# Rounding of float32 features gives directions of 1e-15 to 1e-12 of the mean eigenvalue. Without a penalty they would
# have the largest weights, so that which penalty is best would depend on the last bits of matrix products.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Sums:
    """What least squares needs of the tokens: their number, means, and centred second moments.

    Args:
        count: N, or the sum of the weights where tokens count differently.
        mean_x_D, mean_y_E: x̄ and ȳ.
        xx_DD: Σ (x − x̄)(x − x̄)'.
        xy_DE: Σ (x − x̄)(y − ȳ)'.
        yy: Σ ‖y − ȳ‖².
        noise: what a channel of x may deviate by rounding alone; one that deviates by no more has no weight.
    """

    count: float
    mean_x_D: Array
    mean_y_E: Array
    xx_DD: Array
    xy_DE: Array
    yy: float
    noise: float = 0.0


class RidgeMaps:
    """The maps of one source: for any target and all penalties, from one decomposition.

    Args:
        fit: of the tokens that maps are fitted to, with whatever target: only what says x is used.
        held_out: the same sums of the tokens that maps are judged by.
        penalties: λ, 0 or more.
    """

    def __init__(self, fit: Sums, held_out: Sums, penalties: Sequence[float]) -> None:
        self._values_K, self._basis_DK = _decomposed(fit)
        self._shares_RK = 1.0 / (self._values_K + np.asarray(penalties, dtype=np.float64)[:, None])
        # Held-out tokens are centred on the fitted tokens' means, because the maps go through these.
        self._offset_K = self._basis_DK.T @ (held_out.mean_x_D - fit.mean_x_D)
        self._held_out_KK = self._basis_DK.T @ held_out.xx_DD @ self._basis_DK
        self._held_out_KK += held_out.count * np.outer(self._offset_K, self._offset_K)

    @property
    def rank(self) -> int:
        """K, the number of directions in which the fitted tokens vary."""
        return len(self._values_K)

    def weights(self, fit: Sums, penalty: int) -> Array:
        """W_λ, [D, E], for λ at the place ``penalty`` among the penalties."""
        weights_DE: Array = self._basis_DK @ (self._shares_RK[penalty][:, None] * self._rotated(fit))
        return weights_DE

    def errors(self, fit: Sums, held_out: Sums) -> Array:
        """Σ ‖error‖² over the held-out tokens for every penalty, [R], to rounding (which may leave −1e-16 · Σ ‖y‖²)."""
        offset_E = held_out.mean_y_E - fit.mean_y_E
        total = held_out.yy + held_out.count * float(offset_E @ offset_E)
        fitted_KE = self._rotated(fit)
        cross_KE = self._basis_DK.T @ held_out.xy_DE + held_out.count * np.outer(self._offset_K, offset_E)
        linear_K = (fitted_KE * cross_KE).sum(1)
        square_KK = self._held_out_KK * (fitted_KE @ fitted_KE.T)
        shares = self._shares_RK
        errors_R: Array = total - 2 * shares @ linear_K + ((shares @ square_KK) * shares).sum(1)
        return errors_R

    def _rotated(self, fit: Sums) -> Array:
        rotated_KE: Array = self._basis_DK.T @ fit.xy_DE / fit.count
        return rotated_KE


def _decomposed(fit: Sums) -> tuple[Array, Array]:
    """Eigenvalues [K] of the correlation matrix, and P [D, K], for the directions that have variance."""
    covariance_DD = fit.xx_DD / fit.count
    deviation_D = np.sqrt(np.maximum(np.diagonal(covariance_DD), 0.0))
    varies_D = deviation_D > np.maximum(_CONSTANT * np.abs(fit.mean_x_D), fit.noise)
    inverse_D = np.divide(1.0, deviation_D, out=np.zeros_like(deviation_D), where=varies_D)
    values, vectors = np.linalg.eigh(covariance_DD * inverse_D[:, None] * inverse_D)
    least = max(_ROUNDING, len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0))
    varies_K = values > least
    return values[varies_K], inverse_D[:, None] * vectors[:, varies_K]
