"""Errors of maps on test prompts: sums for each prompt, and the metrics of any weighting of the prompts.

Suffixes: P prompts, S sources, T targets, W weightings (resamples) of the prompts.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bathyscope.analysis.between.streams import States
from bathyscope.measures.normal_equations import array
from bathyscope.statistics.least_squares import Array


class MapErrors:
    """Sums over the tokens of each test prompt, known by its number, at this many boundaries of either model."""

    def __init__(self, prompts: Sequence[int], sources: int, targets: int) -> None:
        self._place = {number: place for place, number in enumerate(prompts)}
        pairs, single = (len(prompts), sources, targets), (len(prompts), targets)
        self.ratio_PST = np.zeros(pairs)
        self.size_PST = np.zeros(pairs)
        self.square_PST = np.zeros(pairs)
        # of the targets themselves, and of the map that gives their mean whatever the source
        self.count_PT = np.zeros(single)
        self.norm_PT = np.zeros(single)
        self.spread_PT = np.zeros(single)
        self.mean_ratio_PT = np.zeros(single)

    def add_targets(self, states: States, means_TE: Tensor) -> None:
        """Adds tokens of the targets; once for each prompt, however many blocks of sources there are.

        ``means_TE`` is ȳ of the fitted tokens.
        """
        for t, (target_NE, mean_E) in enumerate(zip(states.target, means_TE)):
            y_NE = target_NE.to(mean_E)
            norm_N, spread_N = y_NE.norm(dim=1), (y_NE - mean_E).norm(dim=1)
            self._put(self.count_PT[:, t], states, norm_N > 0)
            self._put(self.norm_PT[:, t], states, norm_N)
            self._put(self.spread_PT[:, t], states, spread_N**2)
            self._put(self.mean_ratio_PT[:, t], states, _ratio(spread_N, norm_N))

    def add(self, states: States, source: int, target: int, norm_N: Tensor, error_N: Tensor) -> None:
        """Adds tokens of one map: ‖target‖ and ‖error‖ of each."""
        self._put(self.ratio_PST[:, source, target], states, _ratio(error_N, norm_N))
        self._put(self.size_PST[:, source, target], states, error_N)
        self._put(self.square_PST[:, source, target], states, error_N**2)

    def metrics(self, weights_WP: Array) -> dict[str, Array]:
        """Each metric under each weighting, [W, S, T]; NaN where all targets of a boundary are the zero vector."""
        pairs = {
            "relative_error": (self.ratio_PST, self.count_PT),
            "summed_error": (self.size_PST, self.norm_PT),
            "r2": (self.square_PST, self.spread_PT),
        }
        # A mean of ratios, a ratio of sums, and a share of variance: each is a sum over prompts divided by another,
        # so that resampling prompts needs their weights alone and no forward pass.
        shares = {
            name: _share(np.einsum("wp,pst->wst", weights_WP, above, optimize=True), (weights_WP @ below)[:, None])
            for name, (above, below) in pairs.items()
        }
        return {**shares, "r2": 1.0 - shares["r2"]}

    def mean_error(self) -> Array:
        """The relative error of giving the fitted tokens' mean, [T]."""
        return _share(self.mean_ratio_PT.sum(0), self.count_PT.sum(0))

    def _put(self, sums_P: Array, states: States, values_N: Tensor) -> None:
        sums_by_prompt = torch.zeros(len(states.prompts), dtype=torch.float64, device=values_N.device)
        # In float64, on the device: one number a prompt crosses to the host.
        sums_by_prompt.index_add_(0, states.owners, values_N.double())
        sums_P[[self._place[number] for number in states.prompts]] += array(sums_by_prompt)


def _ratio(error_N: Tensor, norm_N: Tensor) -> Tensor:
    """‖error‖ / ‖target‖; tokens whose target is the zero vector have none and are not counted."""
    return torch.where(norm_N > 0, error_N / norm_N, 0.0)


def _share(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.full(np.broadcast_shapes(above.shape, below.shape), np.nan), where=below > 0)
