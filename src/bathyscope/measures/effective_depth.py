"""Effective depth: how far into the model its blocks still work on the answer, by several estimators.

cosine: the last block at which the mean of the three cosines turns from negative to positive; kl: the first
boundary with KL below half its maximum; overlap: the first boundary with top-k overlap above 0.3; the same
interpolated; settle and prediction: mean depths of tokens; and the centre of mass of the future skip effect. Depths
are given in blocks done, 0 … L, and ratio = depth / L; a centre of mass is a mean position and no depth, ½ of L where
all blocks matter alike.
Source: hu2025 (three estimators); centre of mass as the depth score of csordas2025.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import xarray as xr

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.curves import depth_inputs
from bathyscope.measures.declared.effective_depth import DECLARATION, EffectiveDepthOptions
from bathyscope.prompts.parts import clusters, clusters_in
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.effective_depth import effective_depth
from bathyscope.statistics.sampling import Sampling


class EffectiveDepth(Measure[EffectiveDepthOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if self.options.cluster is not None:
            clusters(prompts, self.options.cluster)

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        options = self.options
        inputs = depth_inputs(merged["residual"], merged["lens"], merged["skip"])
        inputs = replace(inputs, cluster=clusters_in(merged["residual"], options.cluster))
        estimates = effective_depth(
            inputs,
            Sampling(options.resamples, options.level, seed),
            kl_fraction=options.kl_fraction,
            overlap_threshold=options.overlap_threshold,
        )
        data = {name: [getattr(estimate, name) for estimate in estimates.values()] for name in DECLARATION.table or ()}
        percent = f"{100 * options.level:g} %"
        dataset = DECLARATION.dataset(data, {"estimator": list(estimates)}, percent=percent)
        dataset.attrs |= {"n_blocks": facts.n_blocks, "level": options.level, "resamples": options.resamples}
        return dataset
