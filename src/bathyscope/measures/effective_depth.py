"""Effective depth: how far into the model its blocks still work on the answer, by several estimators.

cosine: the last block at which the mean of the three cosines turns from negative to positive; kl: the first
boundary with KL below half its maximum; overlap: the first boundary with top-k overlap above 0.3; the same
interpolated, on smoothed curves, and the curves' change points; settle and prediction: mean depths of tokens;
and the centre of mass of the future skip effect. ratio = (depth + 1) / L.
Source: hu2025 (three estimators); centre of mass as the depth score of csordas2025.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.declared.effective_depth import DECLARATION, EffectiveDepthOptions
from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.effective_depth import effective_depth


class EffectiveDepth(Measure[EffectiveDepthOptions], declared=DECLARATION):
    """All estimators with bootstrap intervals over prompts."""

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        inputs = depth_inputs(merged["residual"], merged["lens"], merged["skip"])
        options = self.options
        found = effective_depth(
            inputs,
            resamples=options.resamples,
            level=options.level,
            kl_fraction=options.kl_fraction,
            overlap_threshold=options.overlap_threshold,
            seed=seed,
        )
        data = {
            name: [getattr(one, name) for one in found.values()]
            for name in ("depth", "ratio", "ci_low", "ci_high", "crossing_share", "reason")
        }
        percent = f"{100 * options.level:g} %"
        dataset = DECLARATION.dataset(data, {"estimator": list(found)}, percent=percent)
        dataset.attrs |= {"n_blocks": facts.n_blocks, "level": options.level, "resamples": options.resamples}
        return dataset


def depth_inputs(residual: xr.Dataset, lens: xr.Dataset, skip: xr.Dataset) -> DepthInputs:
    """What depth estimators work on, per prompt: cosines by block, lens by block input, token depths, skip effects."""
    lens = one_norm(lens)
    inputs = lens.isel(boundary=slice(0, -1))
    has_future = "effect_future" in skip and "block" in skip["part"].values
    future = skip["effect_future"].sel(part="block", reduction="max") if has_future else None

    def curves(name: str, dataset: xr.Dataset, axis: str) -> np.ndarray:
        return np.asarray(dataset[name].transpose("prompt", axis).values, dtype=np.float64)

    return DepthInputs(
        cos_attn=curves("cos_attn", residual, "block"),
        cos_mlp=curves("cos_mlp", residual, "block"),
        cos_block=curves("cos_block", residual, "block"),
        kl=curves("kl_lens_final", inputs, "boundary"),
        overlap=curves("overlap", inputs, "boundary"),
        n_tokens=np.asarray(residual["n_tokens"].values, dtype=np.float64),
        effect_future=None if future is None else np.asarray(future.values, dtype=np.float64),
        settle_depth=np.asarray(lens["settle_depth"].values, dtype=np.float64),
        prediction_depth=np.asarray(lens["prediction_depth"].values, dtype=np.float64),
    )


def one_norm(lens: xr.Dataset) -> xr.Dataset:
    """The lens whose norm is recomputed, where it was read with several; else the one there is."""
    if "norm" not in lens.dims:
        return lens
    return lens.sel(norm="recompute") if "recompute" in lens["norm"].values else lens.isel(norm=0)
