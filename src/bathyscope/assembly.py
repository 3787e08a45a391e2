"""From what batches give to a run's datasets: labels of the prompts, noise, run-level results."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.labels import variable
from bathyscope.measures.base import MeasureProbe

NOISE: Final = "noise"
"""The dataset of a run that holds the noise of its measures."""


def with_summary(merged: xr.Dataset, summary: xr.Dataset) -> xr.Dataset:
    """Results by prompt and run-level ones in one dataset.

    A prompts' label of the name of a run-level result or dimension makes room: ``level`` is then ``prompt_level``.
    """
    labels = {name for name, coord in merged.coords.items() if coord.dims == ("prompt",) and name != "prompt"}
    renamed: dict[Hashable, str] = {}
    for name in labels & {*summary.dims, *summary.data_vars}:
        renamed[name] = f"prompt_{name}"
        while renamed[name] in merged.variables:
            renamed[name] = f"prompt_{renamed[name]}"
    return xr.merge([merged.rename(renamed), summary], combine_attrs="override")


def noise_by_prompt(probes: Mapping[str, MeasureProbe]) -> xr.Dataset | None:
    """Per prompt the noise of every intervention measure."""
    found = {name: noise for name, probe in probes.items() if (noise := probe.noise()) is not None}
    return _noise(found) if found else None


def some_noise(noise: xr.Dataset, names: Collection[str]) -> xr.Dataset | None:
    """The noise of some of the measures; None where it knows none of them."""
    own = [name for name in noise["measure"].values.tolist() if name in names]
    return noise.sel(measure=own) if own else None


def joined_noise(parts: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """The noise of several sets of measures on the same prompts as one, in the order of ``names``."""
    floors = [one["floor_prompt"] for one in parts]
    found = {name: floor.sel(measure=name).values for floor in floors for name in floor["measure"].values.tolist()}
    coords = {name: coord for name, coord in parts[0].coords.items() if coord.dims == ("prompt",)}
    return _noise({name: found[name] for name in names if name in found}).assign_coords(coords)


def _noise(found: Mapping[str, np.ndarray]) -> xr.Dataset:
    floor = variable(
        ("prompt", "measure"),
        np.stack([np.asarray(v, dtype=np.float64) for v in found.values()], axis=1),
        "largest deviation of the control row from the plain forward",
        "as the measure's effect",
        source="control row",
    )
    return xr.Dataset({"floor_prompt": floor}, {"measure": list(found)})


def noise_floor(noise: xr.Dataset) -> xr.Dataset:
    """The noise floor of a run: the largest over prompts, by measure."""
    attrs = noise["floor_prompt"].attrs
    return xr.Dataset(
        {"floor": noise["floor_prompt"].max("prompt").assign_attrs({**attrs, "long_name": "noise floor"})}
    )
