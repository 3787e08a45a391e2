"""Depths of named places: at which boundary an answer no longer needs what erasure or patching replaced there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.statistics.effective_depth import Estimator
from bathyscope.statistics.operand_depth import left_at
from bathyscope.statistics.reading import only_entry

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.core.arrays import FloatArray
    from bathyscope.runs.run import Run

OF_PLACES: Final[Mapping[str, str]] = {"erasure": "effect_at", "patching": "kl_at"}
"""Measure → its effect of named places by boundary."""


def place_estimators(run: Run) -> dict[str, Estimator]:
    """Return, for every named place, the mean boundary behind which less than a tenth of its largest effect is left.

    ``erasure_left`` and ``patching_left``; of several places ``erasure_left_0``, ``erasure_left_1`` … in their order. A
    boundary is the input of the block of that index, so that it is the number of blocks done.
    """
    estimator_of = {}
    for measure, name in OF_PLACES.items():
        if measure not in run.measures or name not in run[measure]:
            continue
        effect = _of_blocks(run[measure][name])
        n_places = effect.sizes["place"]
        for place in range(n_places):
            values_PB = effect.isel(place=place).transpose("prompt", "boundary").values
            title = f"{measure}_left" if n_places == 1 else f"{measure}_left_{place}"
            left_P1 = left_at(values_PB)[:, None]
            limits = (1.0, float(run.n_blocks))
            estimator_of[title] = Estimator(
                left_P1, np.ones(len(left_P1)), only_entry, limits, curve=title, explain=_why_none
            )
    return estimator_of


def _of_blocks(effect: xr.DataArray) -> xr.DataArray:
    """Return the effect of the whole stream, where patching has parts of blocks too."""
    return effect.sel(part="block") if "part" in effect.dims else effect


def _why_none(mean: FloatArray) -> str:
    return "the place has no effect, or keeps it to the end"
