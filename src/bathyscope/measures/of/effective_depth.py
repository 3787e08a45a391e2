"""Effective depth: how far into the model its blocks still work on the answer, by several estimators.

cosine: the last block at which the mean of the three cosines turns from negative to positive; kl: the first
boundary with KL below half its maximum; overlap: the first boundary with top-k overlap above 0.3; the same
interpolated; settle and prediction: mean depths of tokens; and the centre of mass of the future skip effect. Depths
are given in blocks done, 0 … L, and ratio = depth / L; a centre of mass is a mean position and no depth, ½ of L where
all blocks matter alike.
Source: hu2025 (three estimators); centre of mass as the depth score of csordas2025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.core.common_options import Level, PromptLabel, PromptResamples
from bathyscope.core.descriptions import described
from bathyscope.labels import Label, interval
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.prompts.prompt import TokenizedPrompt

_label = partial(Label, "estimator", source="hu2025, effective depth")
_BOOTSTRAP = "bootstrap over prompts"


@described
@dataclass(frozen=True)
class EffectiveDepthOptions:
    """Options of the effective depth.

    Args:
        kl_fraction: share of the largest KL below which kl is met.
        overlap_threshold: overlap above which overlap is met.
    """

    resamples: PromptResamples = 1000
    level: Level = 0.95
    kl_fraction: Annotated[float, Range(1e-6, 1.0)] = 0.5
    overlap_threshold: Annotated[float, Range(0.0, 0.9999)] = 0.3
    cluster: PromptLabel = None


DECLARATION: Final = Declaration(
    "effective_depth",
    "All estimators with bootstrap intervals over prompts.",
    EffectiveDepthOptions,
    {
        "depth": _label(
            "effective depth",
            "block",
            "blocks done, 0 … L: block l is done at l + 1, a position between blocks at ½ more, boundary b at b",
        ),
        "ratio": _label("effective depth ratio", "1", "depth / L"),
        "index": _label(
            "the criterion's own number, from 0",
            "index",
            "cosines and centre of mass index blocks; kl and overlap block inputs; settle and prediction boundaries",
        ),
        **interval("ci", _label, "the {percent=95 %} interval of the depth", "block", _BOOTSTRAP),
        "crossing_share": _label("share of resamples that meet the criterion", "1", _BOOTSTRAP),
        "reason": _label("why there is no estimate or no interval", ""),
    },
    requires=("residual", "lens", "skip"),
    derived=True,
    order=920,
    panels={"estimates": ("depth", "ratio", "index")},
    question="up to which block does the model still work on the answer?",
    rows="none of its own",
    needs="all boundaries",
)


class EffectiveDepth(Measure[EffectiveDepthOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if self.options.cluster is not None:
            from bathyscope.prompts.parts import clusters

            clusters(prompts, self.options.cluster)

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        from bathyscope.measures.curves import depth_inputs
        from bathyscope.prompts.parts import clusters_in
        from bathyscope.statistics.effective_depth import effective_depth
        from bathyscope.statistics.sampling import Sampling

        options = self.options
        inputs = depth_inputs(merged["residual"], merged["lens"], merged.get("skip"))
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
