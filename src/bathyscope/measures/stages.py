"""Stages of inference: at which blocks signatures of how a model works change together, and into how many stages.

Each signature is standardised over the blocks; all are cut at the same boundaries, where they leave the least squares
about their stages' means. Boundaries have bootstrap intervals over prompts, and whether four stages are the right
number is told by the error on prompts that were held out from the choice of the boundaries.
Source: lad2024, stages of inference.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.arrays import IntArray
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.declared.stages import DECLARATION, StagesOptions
from bathyscope.measures.signatures import SIGNATURES, Read, joint_curves, read_signatures
from bathyscope.prompts.parts import clusters, clusters_in
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.stages import (
    Curves,
    HeldOut,
    held_out_errors,
    left_by_ramp,
    mean_band,
    stage_boundaries,
    standardised,
)

STAGES: Final = ("detokenization", "feature engineering", "prediction ensembling", "residual calibration")
"""lad2024's names, in order. Nothing in the cut knows of them."""


class Stages(Measure[StagesOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if self.options.cluster is not None:
            clusters(prompts, self.options.cluster)

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        options, n_blocks = self.options, facts.n_blocks
        read = read_signatures(merged, n_blocks)
        cluster = clusters_in(merged["residual"], options.cluster)
        curves, order = joint_curves(read, cluster)
        cut = stage_boundaries(
            curves, options.stages, options.shortest, resamples=options.resamples, level=options.level, seed=seed
        )
        held = held_out_errors(curves, options.most, options.shortest, folds=options.folds, seed=seed)
        dataset = DECLARATION.dataset(
            {
                **_signatures(read, options, seed, cluster),
                "standardised": _standardised(read, curves, order),
                "boundary": cut.block,
                "ci_low": cut.ci_low,
                "ci_high": cut.ci_high,
                "resample_share": cut.share,
                "relative_depth": cut.block / n_blocks,
                "boundary_reason": cut.reason,
                **_evidence(held, n_blocks, options.most),
            },
            {
                "curve": list(read),
                "curve_units": ("curve", [found.units for found in read.values()]),
                "curve_scale": ("curve", ["log" if SIGNATURES[name].log else "linear" for name in read]),
                "block": np.arange(n_blocks),
                "stage": np.arange(1, options.stages),
                "k": np.arange(1, options.most + 1),
            },
            percent=f"{100 * options.level:g} %",
        )
        if options.stages == len(STAGES):
            dataset = dataset.assign_coords(stage_name=("stage", list(STAGES[1:])))
        dataset.attrs |= {"n_blocks": n_blocks, "n_prompts": len(curves.by_prompt), "level": options.level}
        dataset.attrs |= {"resamples": options.resamples, "shortest": options.shortest}
        if options.cluster is not None:
            dataset.attrs["cluster"] = options.cluster
        return dataset


def _signatures(
    read: Mapping[str, Read], options: StagesOptions, seed: int, cluster: IntArray | None
) -> dict[str, Any]:
    """[curve, block] means with intervals, and why a curve takes no part."""
    none = np.full(next(iter(read.values())).values.shape[-1], np.nan)
    bands = [
        (none, none)
        if found.values.ndim == 1
        else mean_band(found.values, resamples=options.resamples, level=options.level, seed=seed, cluster=cluster)
        for found in read.values()
    ]
    return {
        "signature": np.stack([found.mean for found in read.values()]),
        "signature_low": np.stack([low for low, _ in bands]),
        "signature_high": np.stack([high for _, high in bands]),
        "left_out": [found.reason for found in read.values()],
    }


def _standardised(read: Mapping[str, Read], curves: Curves, order: Sequence[str]) -> np.ndarray:
    """[curve, block] what is cut; NaN for signatures that are left out."""
    names = list(read)
    shape = np.full((len(names), curves.n_blocks), np.nan)
    if len(curves.by_prompt):
        shape[[names.index(name) for name in order]] = standardised(curves.mean())
    return shape


def _evidence(held: HeldOut, n_blocks: int, most: int) -> dict[str, Any]:
    """How well k stages describe prompts they were not chosen on."""
    total = held.error[0] - held.floor
    return {
        "heldout_error": held.error,
        "heldout_stderr": held.stderr,
        "excess": held.excess,
        "excess_stderr": held.excess_stderr,
        "unexplained": (held.error - held.floor) / total if total > 0 else np.full(most, np.nan),
        "unexplained_ramp": left_by_ramp(n_blocks, most),
        "floor": held.floor,
        "best_k": held.best,
        "heldout_reason": held.reason,
    }
