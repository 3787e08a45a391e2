"""Coordinates of steps in the results of looped models: the loop and the block in it, next to the step's number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bathyscope.core.cycles import Cycle
from bathyscope.runs.selecting import PLACES

if TYPE_CHECKING:
    import xarray as xr


def label_steps(dataset: xr.Dataset, cycle: Cycle) -> xr.Dataset:
    """Return a dataset with the coordinates ``loop`` and ``block_in_loop`` along its blocks.

    Along other dimensions of blocks, such as ``dropped``, the coordinates are called ``dropped_loop`` and
    ``dropped_block_in_loop``. Boundaries lie between blocks and have none.
    """
    coords = {}
    for dim in PLACES:
        if dim == "boundary" or dim not in dataset.coords or dataset[dim].dtype.kind not in "iu":
            continue
        prefix = "" if dim == "block" else f"{dim}_"
        steps = dataset[dim].values
        for name, values in (("loop", cycle.loop), ("block_in_loop", cycle.block_in_loop)):
            coords[f"{prefix}{name}"] = (dim, [values[step] for step in steps])
    return dataset.assign_coords(coords)
