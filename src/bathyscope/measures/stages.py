"""Stages of inference: at which blocks signatures of how a model works change together, and into how many stages.

A signature is one value a block, taken from the results of other measures. Each is standardised over the blocks; all
are cut at the same boundaries, where they leave the least squares about their stages' means. Boundaries have bootstrap
intervals over prompts, and whether four stages are the right number is told by the error on prompts that were held out
from the choice of the boundaries.
Source: lad2024, stages of inference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.cycles import Cycle
from bathyscope.errors import OptionError
from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.measures.curves import one_norm
from bathyscope.measures.of.stages import DECLARATION, StagesOptions
from bathyscope.prompts.parts import clusters, clusters_in
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.stages import (
    Curves,
    HeldOut,
    held_out_errors,
    left_by_ramp,
    loop_shares,
    mean_band,
    stage_boundaries,
    standardised,
)

STAGES: Final = ("detokenization", "feature engineering", "prediction ensembling", "residual calibration")
"""lad2024's names, in order. Nothing in the cut knows of them."""
SMALLEST: Final = 1e-6
"""What is below counts as this before a logarithm is taken: rounding of float32."""


@dataclass(frozen=True)
class Signature:
    """Where a curve over the blocks comes from.

    Args:
        axis: the variable's dimension other than ``prompt``; a boundary counts for the block that ends there.
        log: it spans decades, and is compared by its logarithm.
    """

    measure: str
    variable: str
    axis: str
    log: bool = False


SIGNATURES: Final[Mapping[str, Signature]] = {
    "drop_kl": Signature("drop", "kl", "dropped", log=True),
    "attention_prev5": Signature("attention_locality", "total_prev5", "block"),
    "prediction_neurons": Signature("neurons", "prediction_fraction", "block"),
    "suppression_neurons": Signature("neurons", "suppression_fraction", "block"),
    "lens_entropy": Signature("lens", "entropy", "boundary"),
    "lens_kl": Signature("lens", "kl_lens_final", "boundary"),
    # position 0 is often an attention sink, whose norm would hide all others
    "mlp_norm": Signature("residual", "norm_mlp_rest", "block", log=True),
}


@dataclass(frozen=True)
class Read:
    """A signature's values.

    Args:
        values: [prompt, block], or [block] where no prompt changes them.
        reason: why it takes no part in the search for stages; empty where it does.
    """

    values: FloatArray
    units: str
    reason: str

    @property
    def mean(self) -> FloatArray:
        """[block], over the prompts that have a value; each counts the same."""
        return self.values if self.values.ndim == 1 else weighted_mean(self.values, np.ones(len(self.values)))


class Stages(Measure[StagesOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        _require_room(self.options, facts.n_blocks)
        if self.options.cluster is not None:
            clusters(prompts, self.options.cluster)

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        options, n_blocks = self.options, facts.n_blocks
        # also those that cannot be used
        read = {name: _read(signature, merged, n_blocks) for name, signature in SIGNATURES.items()}
        cluster = clusters_in(merged["residual"], options.cluster)
        curves, order = joint_curves(read, cluster)
        sampling = Sampling(options.resamples, options.level, seed)
        cut = stage_boundaries(curves, options.stages, options.shortest, sampling)
        held_out = held_out_errors(curves, options.most, options.shortest, folds=options.folds, seed=seed)
        dataset = DECLARATION.dataset(
            {
                **_signatures(read, replace(sampling, cluster=cluster)),
                "standardised": _standardised(read, curves, order),
                "boundary": cut.block,
                "ci_low": cut.ci_low,
                "ci_high": cut.ci_high,
                "resample_share": cut.share,
                "relative_depth": cut.block / n_blocks,
                "boundary_reason": cut.reason,
                **_evidence(held_out, n_blocks, options.most),
                **_in_loops(curves, facts.anatomy.cycle, replace(sampling, cluster=curves.cluster)),
            },
            {
                "curve": list(read),
                "curve_units": ("curve", [signature.units for signature in read.values()]),
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


def _require_room(options: StagesOptions, n_blocks: int) -> None:
    """Refuse stages that were asked for and do not fit; the usual ones are missing in shallow models, with the reason.

    Raises:
        OptionError: with the largest numbers that fit.
    """
    usual, shortest = StagesOptions(), options.shortest
    is_chosen = {
        "stages": (options.stages, shortest) != (usual.stages, usual.shortest),
        # of 1 to this many, those that fit are there
        "most": options.most != usual.most,
    }
    for name, stages in (("stages", options.stages), ("most", options.most)):
        if not is_chosen[name] or stages * shortest <= n_blocks:
            continue
        fewer = f"{name} up to {n_blocks // shortest}" if n_blocks // shortest >= 2 else ""
        shorter = f"shortest up to {n_blocks // stages}" if n_blocks >= stages else ""
        fits = " or ".join(text for text in (fewer, shorter) if text) or f"at most {n_blocks} stages of 1 block"
        settings = f"{name}={stages}, shortest={shortest}"
        raise OptionError(
            f"stages: {settings} need {stages * shortest} blocks, and the model has {n_blocks}; allowed: {fits}."
        )


def _signatures(read: Mapping[str, Read], sampling: Sampling) -> dict[str, Any]:
    """[curve, block] means with intervals, and why a curve takes no part."""
    none = np.full(next(iter(read.values())).values.shape[-1], np.nan)
    bands = [
        (none, none) if signature.values.ndim == 1 else mean_band(signature.values, sampling)
        for signature in read.values()
    ]
    return {
        "signature": np.stack([signature.mean for signature in read.values()]),
        "signature_low": np.stack([low for low, _ in bands]),
        "signature_high": np.stack([high for _, high in bands]),
        "left_out": [signature.reason for signature in read.values()],
    }


def _standardised(read: Mapping[str, Read], curves: Curves, order: Sequence[str]) -> np.ndarray:
    """[curve, block] what is cut; NaN for signatures that are left out."""
    names = list(read)
    shape = np.full((len(names), curves.n_blocks), np.nan)
    if len(curves.by_prompt):
        shape[[names.index(name) for name in order]] = standardised(curves.mean())
    return shape


def _evidence(held_out: HeldOut, n_blocks: int, most: int) -> dict[str, Any]:
    """How well k stages describe prompts they were not chosen on."""
    # Of what a single stage leaves, the floor is how prompts differ, which no number of stages explains.
    total = held_out.error[0] - held_out.floor
    return {
        "heldout_error": held_out.error,
        "heldout_stderr": held_out.stderr,
        "excess": held_out.excess,
        "excess_stderr": held_out.excess_stderr,
        "unexplained": (held_out.error - held_out.floor) / total if total > 0 else np.full(most, np.nan),
        "unexplained_ramp": left_by_ramp(n_blocks, most),
        "floor": held_out.floor,
        "best_k": held_out.best,
        "heldout_reason": held_out.reason,
    }


def _in_loops(curves: Curves, cycle: Cycle | None, sampling: Sampling) -> dict[str, Any]:
    """Whether stages repeat in every loop or are spread over all of them; empty where nothing can tell."""
    if cycle is None or cycle.period is None or cycle.period < 2 or not len(curves.by_prompt):
        return {}
    shares = loop_shares(curves, cycle.loops, cycle.period, cycle.first, sampling)
    endings = ("", "_low", "_high", "_chance")
    return {f"{name}{ending}": values[at] for name, values in shares.items() for at, ending in enumerate(endings)}


def joint_curves(read: Mapping[str, Read], cluster: IntArray | None = None) -> tuple[Curves, list[str]]:
    """The usable signatures of the prompts that have all of them, as they are compared, and their names in order.

    Args:
        cluster: [prompt], prompts of one number belong together.
    """
    used = {name: _compared(name, signature.values) for name, signature in read.items() if not signature.reason}
    varying = [name for name, values in used.items() if values.ndim == 2]
    fixed = [name for name, values in used.items() if values.ndim == 1]
    n_blocks = next(iter(read.values())).values.shape[-1]
    by_prompt = np.empty((0, 0, n_blocks))
    if varying:
        by_prompt = np.stack([used[name] for name in varying], axis=1)
        has_all = np.isfinite(by_prompt).all(axis=(1, 2))
        by_prompt, cluster = by_prompt[has_all], None if cluster is None else cluster[has_all]
    weights = np.array([used[name] for name in fixed]).reshape(-1, n_blocks)
    return Curves(by_prompt, weights, cluster), [*varying, *fixed]


def _read(signature: Signature, merged: Mapping[str, xr.Dataset], n_blocks: int) -> Read:
    if signature.measure not in merged:
        return Read(np.full(n_blocks, np.nan), "", f"{signature.measure} was not measured")
    array = one_norm(merged[signature.measure])[signature.variable]
    if signature.axis == "boundary":
        # h_{l+1} is what block l leaves behind: boundary 0 belongs to no block.
        array = array.isel(boundary=slice(1, None)).assign_coords(boundary=np.arange(n_blocks))
    # blocks may have been chosen, or left out where the model cannot run without them
    array = array.reindex({signature.axis: np.arange(n_blocks)}).transpose(..., signature.axis)
    values = np.asarray(array.values, dtype=np.float64)
    units = str(array.attrs.get("units", ""))
    missing = int((~np.isfinite(values).reshape(-1, n_blocks).any(axis=0)).sum())
    if missing:
        return Read(
            values, units, f"{signature.variable} of {signature.measure} has no value at {missing} of {n_blocks} blocks"
        )
    usable = Read(values, units, "")
    if np.ptp(usable.mean) > 0:
        return usable
    return Read(values, units, f"{signature.variable} of {signature.measure} is {usable.mean[0]:.3g} at every block")


def _compared(name: str, values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, SMALLEST)) if SIGNATURES[name].log else values
