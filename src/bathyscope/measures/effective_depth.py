"""Effective depth: how far into the model its blocks still work on the answer, by several estimators.

cosine: the last block at which the mean of the three cosines turns from negative to positive; kl: the first
boundary with KL below half its maximum; overlap: the first boundary with top-k overlap above 0.3; the same
interpolated, on smoothed curves, and the curves' change points; settle and prediction: mean depths of tokens;
and the centre of mass of the future skip effect. ratio = (depth + 1) / L.
Source: hu2025 (three estimators); centre of mass as the depth score of csordas2025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bathyscope.measures.base import Measure, ModelFacts, require_range, variable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.depth_inputs import DepthInputs
from bathyscope.statistics.effective_depth import effective_depth

_SOURCE = "hu2025, effective depth"
_INDEX = "cosines and centre of mass index blocks; kl and overlap block inputs; settle and prediction boundaries"


@dataclass(frozen=True)
class EffectiveDepthOptions:
    """Options of the effective depth.

    Args:
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.
        kl_fraction: share of the largest KL below which kl is met.
        overlap_threshold: overlap above which overlap is met.
    """

    resamples: int = 1000
    level: float = 0.95
    kl_fraction: float = 0.5
    overlap_threshold: float = 0.3


class EffectiveDepth(Measure[EffectiveDepthOptions]):
    """All estimators with bootstrap intervals over prompts."""

    name = "effective_depth"
    options_type = EffectiveDepthOptions
    requires = ("residual", "lens", "skip")
    derived = True

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        require_range("effective_depth: resamples", self.options.resamples, 1, 10_000_000)
        require_range("effective_depth: level", self.options.level, 0.01, 0.9999)
        require_range("effective_depth: kl_fraction", self.options.kl_fraction, 1e-6, 1.0)
        require_range("effective_depth: overlap_threshold", self.options.overlap_threshold, 0.0, 0.9999)

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
        values = list(found.values())
        level = f"{100 * options.level:g} %"
        described = {
            "depth": ("effective depth", "block", _INDEX),
            "ratio": ("effective depth ratio", "1", "(depth + 1) / L"),
            "ci_low": (f"lower end of the {level} interval of the depth", "block", "bootstrap over prompts"),
            "ci_high": (f"upper end of the {level} interval of the depth", "block", "bootstrap over prompts"),
            "crossing_share": ("share of resamples that meet the criterion", "1", "bootstrap over prompts"),
        }
        data = {
            name: variable(
                ("estimator",),
                np.array([getattr(v, name) for v in values], dtype=np.float64),
                long_name,
                units,
                formula=formula,
                source=_SOURCE,
            )
            for name, (long_name, units, formula) in described.items()
        }
        data["reason"] = variable(
            ("estimator",),
            [v.reason for v in values],
            "why there is no estimate or no interval",
            "",
            source=_SOURCE,
        )
        dataset = xr.Dataset(data, {"estimator": list(found)})
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
