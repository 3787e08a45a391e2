"""From results of batches to a run's datasets: labels of the prompts, noise, run-level results."""

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
    """Give results the labels of their prompts: those of a coordinate ``prompt``, else those of these numbers."""
    labels = prompts.coords(dataset["prompt"].values.tolist() if "prompt" in dataset.coords else numbers)
    return dataset.drop_vars(labels, errors="ignore").assign_coords(labels)


def with_summary(merged: xr.Dataset, summary: xr.Dataset) -> xr.Dataset:
    """Put results by prompt and run-level ones into one dataset.

    A label of prompts with the name of a run-level result or dimension makes room: ``level`` is then ``prompt_level``.
    """
    labels = {name for name, coord in merged.coords.items() if coord.dims == ("prompt",) and name != "prompt"}
    renamed: dict[Hashable, str] = {}
    for name in labels & {*summary.dims, *summary.data_vars}:
        renamed[name] = f"prompt_{name}"
        while renamed[name] in merged.variables:
            renamed[name] = f"prompt_{renamed[name]}"
    return xr.merge([merged.rename(renamed), summary], combine_attrs="override")


def noise_by_prompt(probes: Mapping[str, MeasureProbe]) -> xr.Dataset | None:
    """Return the noise of every intervention measure by prompt; None where nothing intervenes."""
    noise_by_measure = {name: noise for name, probe in probes.items() if (noise := probe.noise()) is not None}
    if not noise_by_measure:
        return None
    floor = variable(
        ("prompt", "measure"),
        # float64 whatever the measure computes in: noises of several measures share one array
        np.stack([np.asarray(v, dtype=np.float64) for v in noise_by_measure.values()], axis=1),
        "largest deviation of the control row from the plain forward",
        "as the measure's effect",
        source="control row",
    )
    return xr.Dataset({"floor_prompt": floor}, {"measure": list(noise_by_measure)})


def some_noise(noise: xr.Dataset, names: Collection[str]) -> xr.Dataset | None:
    """Return the noise of some of the measures; None where it has none of them."""
    measured = [name for name in noise["measure"].values.tolist() if name in names]
    return noise.sel(measure=measured) if measured else None


def joined_noise(parts: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """Join the noise of several sets of measures on the same prompts, in the order of ``names``."""
    # both are of the same prompts, with the same labels, so that nothing is aligned
    joined = xr.concat(parts, "measure", coords="minimal", compat="override")
    return joined.sel(measure=[name for name in names if name in joined["measure"]])


def noise_floor(noise: xr.Dataset) -> xr.Dataset:
    """Return the noise floor of a run: the largest over prompts, by measure."""
    floor = noise["floor_prompt"].max("prompt", keep_attrs=True)
    return xr.Dataset({"floor": floor.assign_attrs(long_name="noise floor")})
