"""Normal equations of many maps at once, streamed: sums over tokens in float64, on the device of the states.

Batches are merged by their own means and centred products (after Chan, Golub and LeVeque 1983), so that a channel far
from zero loses no digits, and the intercept is the means.

Suffixes: S sources, D their width, T targets, E their width, N tokens.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from bathyscope.statistics.least_squares import Array, RidgeMaps, Sums

_BYTES = 8
_NOISE = 8
"""By how many units in the last place of a state's size rounding may move a channel that should not vary."""


class NormalEquations:
    """Sums over tokens for every pair of some sources and all targets, as ``statistics.least_squares.Sums`` has them.

    ``sources`` and ``targets`` count boundaries, whose ``widths`` are D and E.
    """

    def __init__(self, sources: int, targets: int, widths: tuple[int, int], device: torch.device) -> None:
        d, e = widths

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.count = 0.0
        self._precision = 0.0
        self.mean_x_SD = zeros(sources, d)
        self.mean_y_TE = zeros(targets, e)
        self.xx_SDD = zeros(sources, d, d)
        self.xy_STDE = zeros(sources, targets, d, e)
        self.yy_T = zeros(targets)

    @staticmethod
    def bytes(targets: int, widths: tuple[int, int]) -> int:
        """What one source takes."""
        d, e = widths
        return _BYTES * d * (d + targets * e)

    def add(self, x_SND: Sequence[Tensor], y_TNE: Sequence[Tensor], weight_N: Tensor | None = None) -> None:
        """Adds tokens; sources and targets in any floating-point dtype.

        Args:
            weight_N: how much each token counts, 0 or more and not all 0; None = as one each.
        """
        n_tokens = len(x_SND[0]) if weight_N is None else float(weight_N.sum())
        self._precision = max(self._precision, *(_precision(x) for x in x_SND))
        # how far the new means are from the old ones, and what that adds to second moments
        share, weight = n_tokens / (self.count + n_tokens), self.count * n_tokens / (self.count + n_tokens)
        # Each batch is centred on its own mean: in float64 no digits are lost, however far from 0 a channel lies.
        centred_x, moved_x = zip(*(self._centred(x, mean, weight_N) for x, mean in zip(x_SND, self.mean_x_SD)))
        weighted_x = centred_x if weight_N is None else [x_ND * weight_N[:, None] for x_ND in centred_x]
        for xx_DD, x_ND, counted_ND, moved_D in zip(self.xx_SDD, centred_x, weighted_x, moved_x):
            xx_DD.addmm_(counted_ND.T, x_ND).addr_(moved_D, moved_D, alpha=weight)
        for t, target_NE in enumerate(y_TNE):
            y_NE, moved_E = self._centred(target_NE, self.mean_y_TE[t], weight_N)
            counted_NE = y_NE if weight_N is None else y_NE * weight_N[:, None]
            self.yy_T[t] += (counted_NE * y_NE).sum() + weight * (moved_E @ moved_E)
            for xy_TDE, counted_ND, moved_D in zip(self.xy_STDE, weighted_x, moved_x):
                xy_TDE[t].addmm_(counted_ND.T, y_NE).addr_(moved_D, moved_E, alpha=weight)
            self.mean_y_TE[t] += share * moved_E
        for mean_D, moved_D in zip(self.mean_x_SD, moved_x):
            mean_D += share * moved_D
        self.count += n_tokens

    def of(self, source: int) -> Iterator[Sums]:
        """The sums of one source with each target, one target after the other."""
        mean_x, xx = array(self.mean_x_SD[source]), array(self.xx_SDD[source])
        # What cancels in a block leaves rounding of what it cancelled, which is as large as the state's other channels.
        size = math.sqrt(np.mean(np.diagonal(xx) / self.count + mean_x**2))
        noise = _NOISE * self._precision * size
        for mean_y, xy, yy in zip(self.mean_y_TE, self.xy_STDE[source], self.yy_T):
            yield Sums(self.count, mean_x, array(mean_y), xx, array(xy), float(yy), noise)

    def solve(self, source: int, held_out: Self, penalties: Sequence[float]) -> list[float]:
        """The penalty of each target's map from one source; the maps W take the place of its Σ (x − x̄)(y − ȳ)'.

        It is chosen by the error on the tokens of ``held_out``.
        """
        ridge_maps: RidgeMaps | None = None
        chosen = []
        for target, (fitted, judged) in enumerate(zip(self.of(source), held_out.of(source))):
            ridge_maps = ridge_maps or RidgeMaps(fitted, judged, penalties)
            best = int(np.argmin(ridge_maps.errors(fitted, judged)))
            self.xy_STDE[source, target] = torch.from_numpy(ridge_maps.weights(fitted, best))
            chosen.append(penalties[best])
        return chosen

    def _centred(self, states: Tensor, mean: Tensor, weight_N: Tensor | None) -> tuple[Tensor, Tensor]:
        """Values about their batch's mean, and that mean less ``mean``."""
        values = states.to(mean)
        batch_mean = values.mean(0) if weight_N is None else weight_N @ values / weight_N.sum()
        return values - batch_mean, batch_mean - mean


def _precision(states: Tensor) -> float:
    """A unit in the last place of 1 where products of these states are summed: in float32 for shorter dtypes."""
    return torch.finfo(torch.promote_types(states.dtype, torch.float32)).eps


def array(values: Tensor) -> Array:
    """As numpy has it; the same memory on a CPU."""
    numbers: Array = values.cpu().numpy()
    return numbers
