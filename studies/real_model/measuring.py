"""Survey the model and its controls, job by job, and store what the claims are read off."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

import bathyscope
from bathyscope import Model, Run
from studies.real_model.jobs import JOBS, MODELS, Job
from studies.real_model.timing import peak_memory, reset_peak_memory

RESULTS: Final = Path(__file__).with_name("results")
_LARGE: Final = 5000
"""Numbers from which on a variable is compressed."""


def measure(
    folder: Path,
    data: Path,
    results: Path = RESULTS,
    jobs: Sequence[Job] = JOBS,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure every job that is not stored on as many prompts as it now takes, the cheapest first.

    Args:
        folder: of the model, as ``fetch`` stores it.
        data: folder with the data sets.
        results: folder of one netCDF file for each job and model.
        tell: takes a line about what is done next.
    """
    results.mkdir(parents=True, exist_ok=True)
    # the model itself first: without its controls a row is already worth reading
    tasks = [(job, name) for job in jobs for name in job.models]
    for job, name in sorted(tasks, key=lambda task: task[1] != MODELS[0]):
        file = results / f"{job.name}__{name}.nc"
        if is_measured(file, job.count(name)):
            continue
        tell(f"{job.name}: {name}")
        dataset = measure_job(job, name, folder, data)
        # renamed when it is whole, so that an interrupted measurement leaves nothing that looks finished
        partial = file.with_suffix(".partial")
        dataset.to_netcdf(partial, engine="h5netcdf", encoding=_compressed(dataset))
        partial.rename(file)


def is_measured(file: Path, count: int) -> bool:
    """Return whether a file holds a job on as many prompts as the job now takes."""
    if not file.exists():
        return False
    with xr.open_dataset(file, engine="h5netcdf") as stored:
        # files of the first versions hold the prompts that were measured, and no number that was requested
        measured = stored.attrs.get("prompts", stored.sizes.get("prompt", 0))
        return int(stored.attrs.get("requested", measured)) == count


def _compressed(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How large variables are written; the folder is kept under version control."""
    return {str(name): {"zlib": True} for name, array in dataset.data_vars.items() if array.size > _LARGE}


def measure_job(job: Job, name: str, folder: Path, data: Path) -> xr.Dataset:
    """Return what a job stores of one model, with what it took.

    Args:
        name: of the model or a control of it.
        folder: of the model.
        data: folder with the data sets.
    """
    # the model of the job before may be part of cycles, and would share the memory
    gc.collect()
    model = control(name, folder)
    # a job's peak is its own, and neither that of loading nor of the jobs before
    reset_peak_memory()
    started, cpu = time.perf_counter(), time.process_time()
    count = job.count(name)
    dataset = _survey_job(job, model, data, count) if job.compute is None else job.compute(model, data, count)
    dataset.attrs |= {
        "job": job.name,
        "model": name,
        "data": job.data,
        "requested": count,
        "weight_hash": model.weight_hash,
        "blocks": model.n_blocks,
        "versions": json.dumps({library: version(library) for library in ("bathyscope", "torch", "transformers")}),
        "threads": torch.get_num_threads(),
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - started,
        "peak_bytes": peak_memory(),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return dataset


def _survey_job(job: Job, model: Model, data: Path, count: int) -> xr.Dataset:
    """The job's variables as ``measure.variable``, the tokens of each prompt, and its label."""
    assert job.source is not None
    run = bathyscope.survey(model, job.source(data, count), list(job.measures), progress=False, **job.options)
    variables: dict[str, Any] = {}
    for measure_name, names in job.variables.items():
        dataset = run[measure_name]
        for variable in names:
            array = dataset[variable]
            chosen = {dim: value for dim, value in job.choice.items() if dim in array.dims}
            array = array.sel(chosen).reset_coords(drop=True)
            variables[f"{measure_name}.{variable}"] = (array.dims, np.asarray(array.values, np.float32))
        for coordinate in ("n_tokens", "hops", "steps"):
            if coordinate in dataset.coords:
                variables[coordinate] = (("prompt",), dataset[coordinate].values)
    identity = {"prompts": run.identity.prompts, "prompt_hash": run.identity.prompt_hash}
    return xr.Dataset(variables).assign_attrs(noise_floor=_noise(run), **identity)


def _noise(run: Run) -> str:
    """Measure → largest difference of the control row from the plain forward."""
    if "noise" not in run:
        return "{}"
    floor = run["noise"]["floor"]
    return json.dumps(dict(zip(floor["measure"].values.tolist(), floor.values.tolist())))


def control(name: str, folder: Path) -> Model:
    """Return the model, an untrained one of its configuration, or the model with its middle blocks in another order."""
    from transformers import AutoConfig, AutoModelForCausalLM

    if name == "smollm2":
        return bathyscope.load(folder, dtype="float32")
    if name == "shuffled":
        hf: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        layers = list(hf.model.layers)
        order = np.random.default_rng(0).permutation(np.arange(1, len(layers) - 1))
        hf.model.layers = torch.nn.ModuleList([layers[0], *(layers[block] for block in order), layers[-1]])
        for place, layer in enumerate(hf.model.layers):
            layer.self_attn.layer_idx = place
    else:
        torch.manual_seed(int(name.rpartition("_")[2]))
        hf = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    return bathyscope.load(hf.eval(), tokenizer=_tokenizer(folder))


@cache
def _tokenizer(folder: Path) -> Any:
    """The model's own, which its controls read with."""
    return bathyscope.load(folder, dtype="float32").tokenizer
