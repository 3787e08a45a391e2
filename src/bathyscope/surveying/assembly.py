"""From what batches give to a run's datasets: labels of the prompts, noise, run-level results."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.labels import variable
from bathyscope.measures.base import MeasureProbe
from bathyscope.prompts.prompts import Prompts

NOISE: Final = "noise"
"""The dataset of a run that holds the noise of its measures."""


def with_labels(dataset: xr.Dataset, prompts: Prompts, numbers: Sequence[int]) -> xr.Dataset:
    """Results with the labels of the prompts of these numbers, or of those that they say they are of."""
    labels = prompts.coords(dataset["prompt"].values.tolist() if "prompt" in dataset.coords else numbers)
    return dataset.drop_vars(labels, errors="ignore").assign_coords(labels)


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
    if not found:
        return None
    floor = variable(
        ("prompt", "measure"),
        np.stack([np.asarray(v, dtype=np.float64) for v in found.values()], axis=1),
        "largest deviation of the control row from the plain forward",
        "as the measure's effect",
        source="control row",
    )
    return xr.Dataset({"floor_prompt": floor}, {"measure": list(found)})


def some_noise(noise: xr.Dataset, names: Collection[str]) -> xr.Dataset | None:
    """The noise of some of the measures; None where it knows none of them."""
    own = [name for name in noise["measure"].values.tolist() if name in names]
    return noise.sel(measure=own) if own else None


def joined_noise(parts: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """The noise of several sets of measures on the same prompts as one, in the order of ``names``."""
    joined = xr.concat(parts, "measure", coords="minimal", compat="override")
    return joined.sel(measure=[name for name in names if name in joined["measure"]])


def noise_floor(noise: xr.Dataset) -> xr.Dataset:
    """The noise floor of a run: the largest over prompts, by measure."""
    floor = noise["floor_prompt"].max("prompt", keep_attrs=True)
    return xr.Dataset({"floor": floor.assign_attrs(long_name="noise floor")})
