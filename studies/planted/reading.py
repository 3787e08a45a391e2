"""One measure read as a statement on depth, and what it would have to say of a planted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bathyscope import Run
from studies.planted.construction import Verdict
from studies.planted.truth import Pairs, Truth

Value = float | frozenset[int] | Pairs
"""A number of blocks (NaN = none), a set of blocks, or a set of pairs of blocks."""

SHARE = 0.1
"""A block stands out in a curve where it has at least this share of the largest value …"""
FLOOR = 1e-3
"""… and at least this (nats, probabilities, relative changes): beneath it are rounding and second-order effects."""
TOLERANCE = 1.0
"""Blocks by which a number may miss the truth."""


@dataclass(frozen=True)
class Reading:
    """One measure, read as a statement on depth.

    Args:
        name: a row of the table; an estimator's own name, else measure and variable.
        says: what is read, in words.
        of_run: what a run says.
        of_truth: what it would have to say.
    """

    name: str
    says: str
    of_run: Callable[[Run], Value]
    of_truth: Callable[[Truth], Value]


def verdict(said: Value, true: Value) -> Verdict:
    """Numbers are right within one block, sets only if they are equal; a number that is NaN says nothing."""
    if isinstance(said, float) and isinstance(true, float):
        if np.isnan(said):
            return Verdict.SILENT
        return Verdict.RIGHT if abs(said - true) <= TOLERANCE else Verdict.FOOLED
    return Verdict.RIGHT if said == true else Verdict.FOOLED


def marked(values: xr.DataArray, axis: str) -> frozenset[int]:
    """Where along ``axis`` a curve ``[prompt, axis]`` stands out, by its mean over prompts; NaN never does."""
    curve = values.mean("prompt")
    return frozenset(curve[axis].values[_stands_out(curve.transpose(axis).values)].tolist())


def marked_pairs(effect: xr.DataArray) -> Pairs:
    """(s, l) with s < l at which an effect ``[prompt, skipped, block]`` stands out, by its mean over prompts."""
    later = np.triu(effect.mean("prompt").transpose("skipped", "block").values, k=1)
    return frozenset((int(s), int(block)) for s, block in np.argwhere(_stands_out(later)))


def _stands_out(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.nan_to_num(values) >= max(SHARE * np.nanmax(values), FLOOR))
