"""Depths of named places: at which boundary an answer no longer needs what erasure or patching replaced there.

Patching has a second one: at which boundary a place begins to carry the source's answer, and does so to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.statistics.effective_depth import Estimator
from bathyscope.statistics.operand_depth import arrived_at, left_at
from bathyscope.statistics.reading import only_entry

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.core.arrays import FloatArray
    from bathyscope.runs.run import Run

OF_PLACES: Final[Mapping[str, str]] = {"erasure": "effect_at", "patching": "kl_at"}
"""Measure → its effect of named places by boundary."""
ARRIVING: Final = "recovered_at"
"""What patching has of named places by boundary: the share of the way to the source's answer."""


def place_estimators(run: Run) -> dict[str, Estimator]:
    """Return what is read of every named place, a boundary for each prompt and the mean of these for many.

    ``erasure_left`` and ``patching_left`` are the boundary behind which less than a tenth of its largest effect is
    left, ``patching_arrived`` the first at which, as at all later ones, the place carries half of the way to the
    source's answer. Of several places ``erasure_left_0``, ``erasure_left_1`` … in their order. A boundary is the input
    of the block of that index, so that it is the number of blocks done.
    """
    estimator_of: dict[str, Estimator] = {}
    for measure, name in OF_PLACES.items():
        estimator_of |= _by_place(run, measure, name, f"{measure}_left", left_at, 1.0, _why_not_left)
    return estimator_of | _by_place(run, "patching", ARRIVING, "patching_arrived", arrived_at, 0.0, _why_not_arrived)


def _by_place(
    run: Run,
    measure: str,
    variable: str,
    title: str,
    locate: Callable[[FloatArray], FloatArray],
    lowest: float,
    explain: Callable[[FloatArray], str],
) -> dict[str, Estimator]:
    """Return an estimator for every named place of a variable; none where it was not measured.

    Args:
        locate: curves ``[prompts, boundaries]`` to boundaries ``[prompts]``.
        lowest: the lowest boundary that ``locate`` gives.
    """
    if measure not in run.measures or variable not in run[measure]:
        return {}
    curves = _of_blocks(run[measure][variable])
    n_places, limits = curves.sizes["place"], (lowest, float(run.n_blocks))
    estimator_of = {}
    for place in range(n_places):
        values_PB = curves.isel(place=place).transpose("prompt", "boundary").values
        name = title if n_places == 1 else f"{title}_{place}"
        depth_P1 = locate(values_PB)[:, None]
        estimator_of[name] = Estimator(
            depth_P1, np.ones(len(depth_P1)), only_entry, limits, curve=name, explain=explain
        )
    return estimator_of


def _of_blocks(effect: xr.DataArray) -> xr.DataArray:
    """Return the effect of the whole stream, where patching has parts of blocks too."""
    return effect.sel(part="block") if "part" in effect.dims else effect


def _why_not_left(mean: FloatArray) -> str:
    return "the place has no effect, or keeps it to the end"


def _why_not_arrived(mean: FloatArray) -> str:
    return "the place does not carry half of the way to the source's answer at the end"
