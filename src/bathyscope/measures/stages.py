"""Stages of inference: at which blocks signatures of how a model works change together, and into how many stages.

Each signature is standardised over the blocks; all are cut at the same boundaries, where they leave the least squares
about their stages' means. Boundaries have bootstrap intervals over prompts, and whether four stages are the right
number is told by the error on prompts that were held out from the choice of the boundaries.
Source: lad2024, stages of inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.measures.base import Measure, ModelFacts, require_range, variable
from bathyscope.measures.signatures import SIGNATURES, Read, joint_curves, read_signatures
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.stages import (
    Boundaries,
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
_SOURCE = "lad2024, stages of inference"
_BOOTSTRAP = "bootstrap over prompts"


@dataclass(frozen=True)
class StagesOptions:
    """Options of the stages.

    Args:
        stages: how many the boundaries are given for.
        most: the error on held-out prompts is given for 1 to this many.
        shortest: fewest blocks in a stage.
        folds: into which prompts are dealt to be held out (no more than there are prompts).
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.
    """

    stages: int = 4
    most: int = 5
    shortest: int = 2
    folds: int = 10
    resamples: int = 1000
    level: float = 0.95


class Stages(Measure[StagesOptions]):
    """Signatures by block, boundaries of stages, and the evidence for their number."""

    name = "stages"
    options_type = StagesOptions
    requires = ("residual", "lens", "drop", "attention_locality", "neurons")
    derived = True

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        require_range("stages: stages", self.options.stages, 2, 50)
        require_range("stages: most", self.options.most, 2, 50)
        require_range("stages: shortest", self.options.shortest, 1, 1000)
        require_range("stages: folds", self.options.folds, 2, 1000)
        require_range("stages: resamples", self.options.resamples, 1, 1_000_000)
        require_range("stages: level", self.options.level, 0.01, 0.9999)

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        options, n_blocks = self.options, facts.n_blocks
        read = read_signatures(merged, n_blocks)
        curves, order = joint_curves(read)
        cut = stage_boundaries(
            curves, options.stages, options.shortest, resamples=options.resamples, level=options.level, seed=seed
        )
        held = held_out_errors(curves, options.most, options.shortest, folds=options.folds, seed=seed)
        level = f"{100 * options.level:g} %"
        dataset = xr.Dataset(
            {
                **_signatures(read, options, seed, level),
                **_standardised(read, curves, order),
                **_boundaries(cut, n_blocks, level),
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
        )
        if options.stages == len(STAGES):
            dataset = dataset.assign_coords(stage_name=("stage", list(STAGES[1:])))
        dataset.attrs |= {"n_blocks": n_blocks, "n_prompts": len(curves.by_prompt), "level": options.level}
        dataset.attrs |= {"resamples": options.resamples, "shortest": options.shortest}
        return dataset


def _signatures(read: Mapping[str, Read], options: StagesOptions, seed: int, level: str) -> dict[str, xr.Variable]:
    """[curve, block] means with intervals, and why a curve takes no part."""
    none = np.full(next(iter(read.values())).values.shape[-1], np.nan)
    bands = [
        (none, none)
        if found.values.ndim == 1
        else mean_band(found.values, resamples=options.resamples, level=options.level, seed=seed)
        for found in read.values()
    ]
    described = {
        "signature": ("signature of how the model works at a block", [found.mean for found in read.values()], "mean"),
        "signature_low": (f"lower end of the {level} interval of the signature", [low for low, _ in bands], _BOOTSTRAP),
        "signature_high": (f"upper end of the {level} interval of the signature", [h for _, h in bands], _BOOTSTRAP),
    }
    data = {
        name: variable(("curve", "block"), np.stack(values), long_name, "as the curve", formula=how, source=_SOURCE)
        for name, (long_name, values, how) in described.items()
    }
    reasons = [found.reason for found in read.values()]
    data["left_out"] = variable(("curve",), reasons, "why a signature is left out of the cut", "", source=_SOURCE)
    return data


def _standardised(read: Mapping[str, Read], curves: Curves, order: Sequence[str]) -> dict[str, xr.Variable]:
    """[curve, block] what is cut; NaN for signatures that are left out."""
    names = list(read)
    shape = np.full((len(names), curves.n_blocks), np.nan)
    if len(curves.by_prompt):
        shape[[names.index(name) for name in order]] = standardised(curves.mean())
    return {
        "standardised": variable(
            ("curve", "block"),
            shape,
            "signature as it is cut",
            "1",
            formula="(x − mean over blocks) / standard deviation over blocks; x = log of drop_kl and mlp_norm",
            source=_SOURCE,
        )
    }


def _boundaries(cut: Boundaries, n_blocks: int, level: str) -> dict[str, xr.Variable]:
    described = {
        "boundary": (cut.block, "first block of a stage", "block", "least squares Σ (z − its stage's mean)²"),
        "ci_low": (cut.ci_low, f"lower end of the {level} interval of the boundary", "block", _BOOTSTRAP),
        "ci_high": (cut.ci_high, f"upper end of the {level} interval of the boundary", "block", _BOOTSTRAP),
        "resample_share": (cut.share, "share of resamples with this very boundary", "1", _BOOTSTRAP),
        "relative_depth": (cut.block / n_blocks, "share of the blocks before a stage", "1", "boundary / L"),
    }
    data = {
        name: variable(("stage",), values, long_name, units, formula=formula, source=_SOURCE)
        for name, (values, long_name, units, formula) in described.items()
    }
    data["boundary_reason"] = variable(
        (), cut.reason, "why there are no boundaries or no intervals", "", source=_SOURCE
    )
    return data


def _evidence(held: HeldOut, n_blocks: int, most: int) -> dict[str, xr.Variable]:
    """How well k stages describe prompts they were not chosen on."""
    total = held.error[0] - held.floor
    unexplained = (held.error - held.floor) / total if total > 0 else np.full(most, np.nan)
    described = {
        "heldout_error": (held.error, "error of k stages on held-out prompts", "mean of (z − fit of other prompts)²"),
        "heldout_stderr": (held.stderr, "standard error of the error", "over prompts"),
        "excess": (held.excess, "error over that of the best k", "error(k) − lowest error"),
        "excess_stderr": (held.excess_stderr, "standard error of the excess", "of differences prompt by prompt"),
        "unexplained": (
            unexplained,
            "share of the curves' changes over blocks that k stages leave",
            "(error(k) − floor) / (error(1) − floor)",
        ),
        "unexplained_ramp": (
            left_by_ramp(n_blocks, most),
            "the same share of a straight line, which has no stages",
            "about 1/k²",
        ),
    }
    data = {
        name: variable(("k",), values, long_name, "1", formula=formula, source=_SOURCE)
        for name, (values, long_name, formula) in described.items()
    }
    data["floor"] = variable(
        (), held.floor, "error with a stage for every block", "1", formula="how far prompts differ", source=_SOURCE
    )
    data["best_k"] = variable(
        (),
        held.best,
        "fewest stages not clearly worse than the best k",
        "1",
        formula="smallest k with excess ≤ its standard error",
        source=_SOURCE,
    )
    data["heldout_reason"] = variable((), held.reason, "why there is no error on held-out prompts", "", source=_SOURCE)
    return data
