"""Signatures of how a model works at each depth: one value a block, taken from the results of other measures.

Source: lad2024, stages of inference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.arrays import FloatArray, IntArray
from bathyscope.measures.curves import one_norm
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.stages import Curves

SMALLEST: Final = 1e-6
"""What is below counts as this before a logarithm is taken: rounding of float32."""


@dataclass(frozen=True)
class Signature:
    """Where a curve over the blocks comes from.

    Args:
        axis: the variable's dimension beside ``prompt``; a boundary counts for the block that ends there.
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


def read_signatures(merged: Mapping[str, xr.Dataset], n_blocks: int) -> dict[str, Read]:
    """Every signature, also those that cannot be used, from the merged datasets of a run."""
    return {name: _read(one, merged, n_blocks) for name, one in SIGNATURES.items()}


def joint_curves(read: Mapping[str, Read], cluster: IntArray | None = None) -> tuple[Curves, list[str]]:
    """The usable signatures of the prompts that have all of them, as they are compared, and their names in order.

    Args:
        cluster: [prompt], prompts of one number belong together.
    """
    used = {name: _compared(name, found.values) for name, found in read.items() if not found.reason}
    varying = [name for name, values in used.items() if values.ndim == 2]
    fixed = [name for name, values in used.items() if values.ndim == 1]
    n_blocks = next(iter(read.values())).values.shape[-1]
    by_prompt = np.empty((0, 0, n_blocks))
    if varying:
        by_prompt = np.stack([used[name] for name in varying], axis=1)
        there = np.isfinite(by_prompt).all(axis=(1, 2))
        by_prompt, cluster = by_prompt[there], None if cluster is None else cluster[there]
    weights = np.array([used[name] for name in fixed]).reshape(-1, n_blocks)
    return Curves(by_prompt, weights, cluster), [*varying, *fixed]


def _read(one: Signature, merged: Mapping[str, xr.Dataset], n_blocks: int) -> Read:
    if one.measure not in merged:
        return Read(np.full(n_blocks, np.nan), "", f"{one.measure} was not measured")
    array = one_norm(merged[one.measure])[one.variable]
    if one.axis == "boundary":
        array = array.isel(boundary=slice(1, None)).assign_coords(boundary=np.arange(n_blocks))
    # blocks may have been chosen, or left out where the model cannot run without them
    array = array.reindex({one.axis: np.arange(n_blocks)}).transpose(..., one.axis)
    values = np.asarray(array.values, dtype=np.float64)
    units = str(array.attrs.get("units", ""))
    missing = int((~np.isfinite(values).reshape(-1, n_blocks).any(axis=0)).sum())
    if missing:
        return Read(values, units, f"{one.variable} of {one.measure} has no value at {missing} of {n_blocks} blocks")
    found = Read(values, units, "")
    if np.ptp(found.mean) > 0:
        return found
    return Read(values, units, f"{one.variable} of {one.measure} is {found.mean[0]:.3g} at every block")


def _compared(name: str, values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, SMALLEST)) if SIGNATURES[name].log else values
